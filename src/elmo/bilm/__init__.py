"""Ids become layer activations: token layer, two LSTM stacks, softmax, and the model they form."""
