"""The `elmo` command: one small file a subcommand, imported when it is called."""
