"""elmo completion: scripts that complete commands and options in bash, zsh and fish.

The scripts hold all names, so that completing a word starts no Python. (argcomplete and shtab were
looked at: the first runs the program at each press of Tab, the second needs argparse's own help.)
"""

from __future__ import annotations

import importlib

from elmo.cli.main import COMMANDS, PARTS, Arguments, Command

SHELLS = ("bash", "zsh", "fish")


def completion_command() -> Command:
    page = """
        Print a script that completes commands, options and files in your shell.

        elmo completion bash > ~/.local/share/bash-completion/completions/elmo
        elmo completion zsh > ~/.zfunc/_elmo
        elmo completion fish > ~/.config/fish/completions/elmo.fish
    """
    command = Command("completion", run_completion, page)
    command.option("SHELL", "bash, zsh or fish.", choices=SHELLS)
    return command


def run_completion(args: Arguments) -> int:
    print({"bash": bash, "zsh": zsh, "fish": fish}[args.shell](all_flags()))
    return 0


def all_flags() -> dict[str, list[str]]:
    """The options of every command, by its name as it is typed."""
    flags: dict[str, list[str]] = {}
    for name, (module, _) in COMMANDS.items():
        for part in [f"{name} {part}" for part in PARTS[name]] if name in PARTS else [name]:
            home = importlib.import_module(f"elmo.cli.{module}")
            flags[part] = getattr(home, f"{part.replace(' ', '_')}_command")().flags()
    return flags


def bash(flags: dict[str, list[str]]) -> str:
    """For bash-completion, or to be read by ~/.bashrc."""
    cases = "\n".join(f'    "{name}") words="{" ".join(flags[name])}" ;;' for name in flags)
    groups = "\n".join(f'    {name}) parts="{" ".join(parts)}" ;;' for name, parts in PARTS.items())
    return f"""# bash completion of elmo; made with: elmo completion bash
_elmo() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" command="${{COMP_WORDS[1]}}" words="" parts=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{" ".join(COMMANDS)}" -- "$word"))
    return
  fi
  case "$command" in
{groups}
  esac
  if [ -n "$parts" ]; then
    if [ "$COMP_CWORD" -eq 2 ]; then
      COMPREPLY=($(compgen -W "$parts" -- "$word"))
      return
    fi
    command="$command ${{COMP_WORDS[2]}}"
  fi
  case "$command" in
{cases}
  esac
  case "$word" in
    -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
    *) COMPREPLY=($(compgen -f -- "$word")) ;;
  esac
}}
complete -o filenames -F _elmo elmo"""


def zsh(flags: dict[str, list[str]]) -> str:
    """For a folder of $fpath."""
    commands = "\n".join(f"    '{name}:{_quoted(what)}'" for name, (_, what) in COMMANDS.items())
    groups = ""
    for name, parts in PARTS.items():
        described = " ".join(f"'{part}:{_quoted(what)}'" for part, what in parts.items())
        groups += f"    {name}) parts=({described}) ;;\n"
    cases = "\n".join(f'    "{name}") compadd -- {" ".join(flags[name])} ;;' for name in flags)
    return f"""#compdef elmo
# zsh completion of elmo; made with: elmo completion zsh
_elmo() {{
  local -a commands parts
  commands=(
{commands}
  )
  if (( CURRENT == 2 )); then _describe command commands; return; fi
  local name=$words[2]
  case $name in
{groups}  esac
  if (( $#parts )); then
    if (( CURRENT == 3 )); then _describe command parts; return; fi
    name="$name $words[3]"
  fi
  if [[ $words[CURRENT] != -* ]]; then _files; return; fi
  case $name in
{cases}
  esac
}}
if [ "$funcstack[1]" = "_elmo" ]; then _elmo "$@"; else compdef _elmo elmo; fi"""


def fish(flags: dict[str, list[str]]) -> str:
    """For ~/.config/fish/completions."""
    lines = ["# fish completion of elmo; made with: elmo completion fish"]
    for name, (_, what) in COMMANDS.items():
        text = _quoted(what)
        lines.append(f"complete -c elmo -n __fish_use_subcommand -f -a {name} -d '{text}'")
    for group, parts in PARTS.items():
        seen = f"__fish_seen_subcommand_from {group}"
        seen += f"; and not __fish_seen_subcommand_from {' '.join(parts)}"
        for part, what in parts.items():
            lines.append(f"complete -c elmo -n '{seen}' -f -a {part} -d '{_quoted(what)}'")
    for name, options in flags.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        long = (option.removeprefix("--") for option in options)
        lines += [f"complete -c elmo -n '{seen}' -l {option}" for option in long]
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Without what ends a quoted string, or the name in zsh's lists."""
    return text.replace("'", "’").replace(":", " -")
