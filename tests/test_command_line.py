"""`python -m torch_hrr` itself: help, version, wrong arguments, and how it ends early."""

import os
import re
import sys

import pytest
import torch

import torch_hrr
from torch_hrr import __main__ as command_line
from torch_hrr import doctor

COMMANDS = ("info", "doctor", "demo", "bench", "monitor", "parse", "explore")


def test_alone_it_prints_its_commands(capsys):
    assert command_line.main([]) == 2
    printed = capsys.readouterr().out
    assert all(f"    {command} " in printed for command in COMMANDS)


def test_the_version_names_torch_too(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        command_line.main(["--version"])
    assert capsys.readouterr().out == f"torch_hrr {torch_hrr.__version__}, torch {torch.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_explained_in_one_way(command, monkeypatch):
    parsers = command_line._parser()[1]
    if command == "bench":

        def kept(parser, arguments):
            parsers["bench"] = parser
            raise SystemExit

        monkeypatch.setattr(command_line.argparse.ArgumentParser, "parse_intermixed_args", kept)
        with pytest.raises(SystemExit):
            command_line.main(["bench", "--help"])
    parser = parsers[command]
    assert parser.prog == f"python -m torch_hrr {command}" and parser.description.endswith(".")
    for action in parser._actions[1:]:
        text = action.help % {"default": action.default, "prog": parser.prog}
        assert not text.endswith(".") and (text[0].islower() or not text[0].isalpha()), text
        takes_a_value = action.option_strings and action.nargs != 0
        if takes_a_value and action.default is not None:
            assert "(default: " in text or "in place of" in text, text
        assert not takes_a_value or action.metavar or action.choices, action.option_strings


@pytest.mark.parametrize(
    ("arguments", "usage", "text"),
    [
        (["info", "extra"], "info [-h]", "unrecognized arguments: extra"),
        (["doctor", "--jsn"], "doctor [-h]", "unrecognized arguments: --jsn"),
        (["--jsn"], "[-h] [--version] COMMAND", "unrecognized arguments: --jsn"),
        (["nothing"], "[-h] [--version] COMMAND", "invalid choice: 'nothing'"),
        (["parse"], "parse [-h]", "the following arguments are required: WORD"),
    ],
)
def test_wrong_arguments_are_said_with_the_usage_of_their_command(arguments, usage, text, capsys):
    with pytest.raises(SystemExit) as caught:
        command_line.main(arguments)
    assert caught.value.code == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"usage: python -m torch_hrr {usage}") and text in printed


def test_a_sentence_needs_no_quotes_and_its_tree_any_encoding(capfd, monkeypatch):
    with open(os.dup(1), "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert command_line.main(["parse", "cats", "chase", "mice"]) == 0
    assert capfd.readouterr().out.splitlines() == ["chase  VERB", "?? cats  SUBJ", "?? mice  OBJ"]


def test_a_sentence_that_is_none_is_said(capsys):
    with pytest.raises(SystemExit, match="parse: sentence must "):
        command_line.main(["parse", "xyzzy"])


def test_its_help_has_the_words_that_it_knows(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        command_line.main(["parse", "--help"])
    assert {"people", "sobakie"} <= set(re.findall(r"\w+", capsys.readouterr().out))


def test_ctrl_c_and_a_closed_pipe_end_it_as_in_a_shell(monkeypatch, capfd, tmp_path):
    def interrupted(options):
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "run", interrupted)
    assert command_line.main(["doctor"]) == 130
    assert capfd.readouterr().err == "\ninterrupted\n"
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert command_line.main(["info"]) == 141
        # Nothing fails any more, as at the interpreter's end.
        stream.write("more")
        stream.flush()


def test_streams_that_are_closed_and_a_full_disk_end_without_a_traceback(monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert command_line.main(["info"]) == 0
    sys.stdout.close()
    sys.stderr.close()
    monkeypatch.undo()
    if os.path.exists("/dev/full"):
        # The rest of what is buffered goes nowhere when the file closes.
        with open("/dev/full", "w") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert command_line.main(["info"]) == 1
        assert capfd.readouterr().err.splitlines()[-1] == "python -m torch_hrr: [Errno 28] No space left on device"


@pytest.mark.parametrize("arguments", [["info"], ["bench"], ["parse", "cats", "chase", "mice"]])
def test_a_build_that_cannot_be_used_is_said_in_a_line(monkeypatch, arguments):
    def refused():
        raise RuntimeError("TORCH_HRR_ISA must be scalar, avx2 or avx512, got mmx")

    monkeypatch.setattr(command_line, "build_info", refused)
    with pytest.raises(SystemExit, match=r"^\w+: TORCH_HRR_ISA must be .* doctor` says what mends it$"):
        command_line.main(arguments)
