"""Damage to the folder of a member that does not run."""


def flip(path, at):
    """A bit of the file is another."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 4]))


def flip_log(folder):
    flip(min((folder / "log").glob("*.log")), 200)


def flip_engine(folder):
    for table in (folder / "engine").glob("*/tables/*"):
        for at in range(0, table.stat().st_size, 64):
            flip(table, at)
