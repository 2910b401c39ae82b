"""The class of a job, and its way to `fader mapreduce`."""

import argparse
import dataclasses
import glob
import inspect
import io
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import zipfile

from .tasks import map_records, reduce_groups
from .values import decode, read_json_line

_ARCHIVE = "fader_mapreduce.zip"
_MAIN = "import sys\n\nfrom fader_mapreduce.program import main\n\nmain(sys.argv[1:])\n"


@dataclasses.dataclass(frozen=True)
class Step:
    """A map and a reduce phase. What is `None` passes pairs on."""

    mapper: object = None
    combiner: object = None
    reducer: object = None
    mapper_init: object = None
    mapper_final: object = None
    reducer_init: object = None
    reducer_final: object = None


class Job:
    """A job. See the README for its members."""

    #: Reduce tasks of each step, and parts.
    reduces = 4
    #: Paths of further files that travel with the job, into the folder of each process.
    files = ()
    #: Hadoop's settings by name: what `-D` says.
    settings = {}
    #: How the output is written: "text" or "json".
    output = "text"
    #: Whether a record is a whole object, as bytes.
    whole = False

    mapper = combiner = reducer = None
    mapper_init = mapper_final = reducer_init = reducer_final = None

    def __init__(self, options=None):
        self.options = options or types.SimpleNamespace()
        self.counters = {}
        self._write = None

    def steps(self):
        """The steps; unless a job has its own, one of its members."""
        names = [field.name for field in dataclasses.fields(Step)]
        return [Step(**{name: getattr(self, name) for name in names})]

    @classmethod
    def arguments(cls, parser):
        """Adds flags of the job's own to its command line."""

    def count(self, name, number=1):
        """Raises a counter."""
        if type(number) is not int or number < 0:
            raise ValueError(f"counter {name!r}: {number!r} is no whole number from 0")
        self.counters[name] = self.counters.get(name, 0) + number

    def write(self, output, key, value):
        """In a reducer: a pair for an output, 0 to 255."""
        if self._write is None:
            raise RuntimeError("only reducers write to outputs")
        self._write(output, key, value)

    def bind(self, write):
        """Sets where `write` goes. The library calls it."""
        self._write = write

    @classmethod
    def run(cls, arguments=None):
        """The command line of the job: hands it to `fader mapreduce`, and exits."""
        sys.exit(_main(cls, sys.argv[1:] if arguments is None else arguments))

    @classmethod
    def run_inline(cls, inputs, options=None):
        """The lines of the output, as bytes, without workers. `inputs`: bytes or text by name."""
        job = cls(options)
        lines = _inline(job, inputs)
        return lines


def _inline(job, inputs):
    steps = job.steps()
    records = _inline_records(job, inputs)
    outputs = {}
    for number, step in enumerate(steps):
        pairs = []
        map_records(job, step, records, lambda key, value, at=pairs: at.append((key, value)))
        pairs.sort()
        grouped = itertools.groupby(pairs, key=lambda pair: pair[0])
        groups = ((decode(key), map(decode, [value for _, value in of])) for key, of in grouped)
        outputs = {}

        def emit(_, line, output, at=outputs):
            at.setdefault(output, []).append(line)

        reduce_groups(job, step, groups, number + 1 == len(steps), emit)
        records = map(read_json_line, outputs.get(0, []))
    return [line for _, lines in sorted(outputs.items()) for line in lines]


def _inline_records(job, inputs):
    for name, data in inputs.items():
        data = data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data
        if job.whole:
            yield name, data
            continue
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        for line in lines:
            yield name, line.decode("utf-8", "surrogateescape")


def _parser(cls):
    about = (inspect.getdoc(cls) or "") if cls.__doc__ else None
    parser = argparse.ArgumentParser(
        description=about,
        epilog="Other flags go to fader mapreduce, such as --memory 512MiB.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--input", action="append", required=True, metavar="URL",
        help="a URL or path with *, ? and **; a folder stands for all in it; may be repeated",
    )  # fmt: skip
    parser.add_argument("--output", metavar="URL", help="where parts and _SUCCESS go")
    parser.add_argument("--reduces", type=int, help=f"reduce tasks and parts ({cls.reduces})")
    parser.add_argument("--submit", action="store_true", help="leaves the work to workers")
    parser.add_argument(
        "--inline", action="store_true", help="runs here and prints lines: to try a job on a little"
    )
    parser.add_argument("--fader", default=os.environ.get("FADER", "fader"), help="the binary")
    parser.add_argument("--python", default="python3", help="Python on the workers (python3)")
    own = parser.add_argument_group("the job's own")
    cls.arguments(own)
    return parser, {action.dest for action in own._group_actions}


def _main(cls, arguments):
    parser, own = _parser(cls)
    told, others = parser.parse_known_args(arguments)
    options = {name: value for name, value in vars(told).items() if name in own}
    if told.inline:
        inputs = dict(_found(told.input))
        if not inputs:
            parser.error(f"no input matches {' '.join(told.input)}")
        for line in _inline(cls(types.SimpleNamespace(**options)), inputs):
            sys.stdout.buffer.write(line + b"\n")
        return 0
    if not told.output:
        parser.error("--output is missing: where does the output go?")
    if shutil.which(told.fader) is None:
        parser.error(f"{told.fader}: no such program: name the binary with --fader or FADER")
    job = cls(types.SimpleNamespace(**options))
    steps = job.steps()
    with tempfile.TemporaryDirectory() as folder:
        archive = pathlib.Path(folder, _ARCHIVE)
        archive.write_bytes(_archive())
        numbers = range(len(steps))
        arguments = [_arguments(job, number, told, options, archive) for number in numbers]
        if told.submit:
            if len(steps) != 1:
                parser.error("--submit takes a job of one step")
            first = [word for url in told.input for word in ("-input", url)]
            command = ["streaming", "--submit", *others, *first, "-output", told.output]
            command += arguments[0]
        else:
            file = pathlib.Path(folder, "steps.toml")
            file.write_text(_toml(told.input, arguments), encoding="utf-8")
            command = ["run", "--job", str(file), "--output", told.output, *others]
        return _call([told.fader, "mapreduce", *command])


def _call(command):
    """Runs the binary. An interrupt is its to answer: it leaves a job that can be resumed."""
    process = subprocess.Popen(command)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = process.wait()
    if status == 130:
        # The signal may come to this process after the binary ended: it is answered already.
        print("the same command of this job goes on, too", file=sys.stderr)
    else:
        signal.signal(signal.SIGINT, before)
    return status if 0 <= status else 128 - status


def _arguments(job, number, told, options, archive):
    """The arguments of one step, as Hadoop Streaming has them."""
    path = _file(type(job))
    files = [str(archive), str(path), *map(str, job.files)]
    for file in files:
        if "," in file or "#" in file:
            raise ValueError(f"{file}: a path of a file that travels has neither , nor #")
    # A quote within quotes ends them: JSON has another way to write it.
    said = json.dumps(options, sort_keys=True).replace("'", "\\u0027")
    command = f"{told.python} {_ARCHIVE} '{path.name}' {type(job).__name__} {number} '{said}'"
    arguments = ["-io", "frames", "-files", ",".join(files)]
    arguments += ["-mapper", command, "-reducer", command]
    arguments += ["-numReduceTasks", str(told.reduces or job.reduces)]
    if job.whole and number == 0:
        arguments += ["-inputformat", "whole"]
    for name, value in sorted(job.settings.items()):
        arguments += ["-D", f"{name}={value}"]
    return arguments


def _file(cls):
    path = pathlib.Path(inspect.getfile(cls)).resolve()
    if "<locals>" in cls.__qualname__ or "." in cls.__qualname__:
        raise ValueError(f"{cls.__qualname__}: a job is a class of a file, not within another")
    return path


def _archive():
    """The library as a program of one file. Its bytes are always the same: a job that is resumed
    must be the same job."""
    folder = pathlib.Path(__file__).parent
    texts = {f"fader_mapreduce/{path.name}": path.read_bytes() for path in folder.glob("*.py")}
    texts["__main__.py"] = _MAIN.encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in sorted(texts.items()):
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text)
    return out.getvalue()


def _toml(inputs, steps):
    """A file of steps. A text of JSON is one of TOML."""

    def text(value):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

    lines = []
    for number, arguments in enumerate(steps):
        lines += ["[[step]]", 'program = "streaming"']
        if number == 0:
            lines.append(f"input = [{', '.join(map(text, inputs))}]")
        lines.append(f"arguments = [{', '.join(map(text, arguments))}]")
        lines.append("")
    return "\n".join(lines)


def _found(patterns):
    """Files of this machine by pattern, with their bytes."""
    for pattern in patterns:
        pattern = pattern.removeprefix("file://")
        if os.path.isdir(pattern):
            pattern = os.path.join(pattern, "**")
        for path in sorted(glob.glob(pattern, recursive=True)):
            if os.path.isfile(path):
                yield path, pathlib.Path(path).read_bytes()
