"""Names of earlier builds are refused: commands and flags with 2, keys of the file with 1."""

import pytest

from server import fader


@pytest.mark.parametrize("arguments", [
    ["cluster", "why"],
    ["cluster", "drain", "n1"],
    ["cluster", "chains", "--add", "1"],
    ["serve", "--speaks", "2"],
    ["serve", "--fill-mb", "8"],
    ["measure", "conformance", "s3", "--endpoint", "http://127.0.0.1:9", "--bucket", "b"],
], ids=" ".join)
def test_an_old_command_or_flag_is_refused(arguments, tmp_path):
    run = fader(*arguments, home=tmp_path, check=False)
    assert run.returncode == 2
    assert "error: " in run.stderr and "--help" in run.stderr, run.stderr


@pytest.mark.parametrize("line", ["speaks = 2", "fill-mb = 8"])
def test_an_old_key_of_the_file_is_refused(line, tmp_path):
    path = tmp_path / "fader.toml"
    path.write_text(f"{line}\n")
    run = fader("serve", "--config", path, home=tmp_path, check=False)
    assert run.returncode == 1
    assert line.split()[0] in run.stderr, run.stderr


@pytest.mark.parametrize("name", ["FADER_SPEAKS", "FADER_FILL_MB"])
def test_an_old_variable_changes_nothing(name, tmp_path):
    shown = fader("config", "show", home=tmp_path).stdout
    assert fader("config", "show", home=tmp_path, **{name: "2"}).stdout == shown
