"""`python -m train.completion`: groups, options and keys behind `python -m train` in a shell.

Hydra's own scripts complete `python script.py` or an installed command, never `python -m`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from omegaconf import DictConfig, OmegaConf

from components.errors import ConfigError
from train.command_line import CommandLine, parse
from train.hydra_api import Composer, argument_parser

BASH = """\
_train_completion() {
    [[ ${COMP_WORDS[1]} == -m && ${COMP_WORDS[2]} == train ]] || return 0
    local line=${COMP_LINE:0:COMP_POINT} IFS=$'\\n'
    local word=${line##*[[:space:]]}
    local done=${word%"$2"}  # readline keeps what is before the last `=`
    COMPREPLY=($("$1" -m train.completion --query "$line" 2>/dev/null))
    COMPREPLY=("${COMPREPLY[@]#"$done"}")
}
complete -o default -o nospace -F _train_completion python python3
"""

ZSH = """\
_train_completion() {
    if [[ ${words[2]} != -m || ${words[3]} != train ]]; then _default; return; fi
    local -a found
    local line="${(j: :)words[1,CURRENT]}"
    found=("${(@f)$(${words[1]} -m train.completion --query "$line" 2>/dev/null)}")
    compadd -S '' -- $found
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit -u; }
compdef _train_completion python python3
"""

FISH = """\
function _train_completion
    set -l words (commandline -opc)
    $words[1] -m train.completion --query (commandline -cp | string collect) 2>/dev/null
end
for name in python python3
    complete -c $name -n 'string match -q -- "* -m train *" (commandline -cp)' \\
        -f -a '(_train_completion)'
end
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

EPILOG = """\
put this into the shell's start-up file, or type it:
  bash  eval "$(python -m train.completion bash)"        ~/.bashrc
  zsh   eval "$(python -m train.completion zsh)"         ~/.zshrc
  fish  python -m train.completion fish | source         ~/.config/fish/config.fish

Groups, options and keys come from conf/, and from the folder that --config-dir names.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    words = _parser().parse_args(argv)
    if words.query is None:
        print(SCRIPTS[words.shell], end="")
    else:
        print("\n".join(candidates(words.query)))
    return 0


def candidates(line: str) -> list[str]:
    """What the last word of a command line, up to the cursor, could become; words in full.

    A group ends in `=` for its option to follow, a key too, and a mapping in a dot.
    """
    *before, word = line.split(" ")
    given = [text for text in before if text][3:]  # behind `python -m train`
    if word.startswith("-"):
        flags = argument_parser()._option_string_actions
        return sorted(flag for flag in flags if flag.startswith(word) and len(flag) > 2)
    command = _composed(given)
    if command is None:
        return []
    found = _options(command.composer, word) if "=" in word else _keys(command, word)
    return sorted(set(found))


def _composed(given: list[str]) -> CommandLine | None:
    """The words so far; without those in which there is a mistake if there is one."""
    flags = [text for text in given if "=" not in text or text.startswith("-")]
    for words in (given, flags, []):
        try:
            return parse(words)
        except ConfigError:
            continue
    return None


def _options(composer: Composer, word: str) -> Iterator[str]:
    """Options of a group; behind a comma those that a sweep does not have yet."""
    key, _, value = word.partition("=")
    group = key.lstrip("+")
    if composer.is_group(group):
        head, comma, last = value.rpartition(",")
        for option in composer.options(group):
            if option.startswith(last) and option not in head.split(","):
                yield f"{key}={head}{comma}{option}"


def _keys(command: CommandLine, word: str) -> Iterator[str]:
    """Groups, and keys of the composed config one level at a time."""
    bare = word.lstrip("+~")
    signs = word[: len(word) - len(bare)]
    end = "" if signs == "~" else "="
    groups = command.composer.groups()
    yield from (f"{signs}{group}{end}" for group in groups if group.startswith(bare))
    if signs.startswith("+"):  # what is there already is not added
        return
    parent = bare.rpartition(".")[0]
    node = OmegaConf.select(command.base, parent) if parent else command.base
    for key in map(str, node if isinstance(node, DictConfig) else ()):
        full = f"{parent}.{key}" if parent else key
        if full.startswith(bare) and full != "hydra":
            below = OmegaConf.is_dict(node._get_node(key))
            yield f"{signs}{full}{'.' if below else end}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m train.completion",
        description="Print the script by which a shell completes `python -m train`.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SCRIPTS, nargs="?", default="bash")
    parser.add_argument("--query", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
