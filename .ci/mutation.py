"""Measures what the tests notice: it changes the code in one place and runs them.

A changed copy of the code is a mutant. A mutant is killed if a test fails, or does not
end; it survives if all tests pass. The score of a subpackage is the killed part of its
mutants. The operators, which say what is changed, are those of cosmic-ray, and a few of
the same kind below. Cosmic-ray itself runs a whole command for each mutant, which would
take days here; this runs, in a fork of an interpreter that has pytest loaded, only
tests that execute the changed line.

    python .ci/mutation.py record
    python .ci/mutation.py score _scheduler --sample 200 --seed 1
    python .ci/mutation.py replay build/mutation/_scheduler.json

``record`` runs the default tests once under coverage and stores which test executes
which line. Worker processes are not traced. A line that no test of this process
executes, in a subpackage that workers load, is tested by the tests with processes.
The tests run in a copy of the tree and, where ``unshare`` can do it, in process
namespaces of their own: a mutant may send its signals to other processes.

Needs the extra ``mutation-test``.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import itertools
import json
import os
import queue
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from parso.tree import NodeOrLeaf

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "mutation"
MARKS = "not slow and not thorough and not ray and not accelerator"
MOST_TESTS, MOST_FILES, MOST_SECONDS = 80, 12, 30.0
"""The limits of the tests of one mutant, times the depth; seconds as recorded."""
IN_CORE = {"_base", "_loops", "_options", "_futures", "_rows", "_core"}
IN_WORKERS = {"_worker", "_wire", "_shm", "_inline", *IN_CORE}
"""The subpackages that worker processes load."""
PRELOADED = (
    "pytest_asyncio.plugin pytest_timeout hypothesis._hypothesis_pytestplugin numpy "
    "hypothesis.strategies hypothesis.stateful msgpack cloudpickle uvloop unittest.mock"
)
"""What each run imports besides actorlib and the tests."""
QUIET = "-W", "ignore::pytest.PytestAssertRewriteWarning"
"""Plugins are imported ahead, and what they assert is not of interest."""


# Mutants


_CHOSEN = {
    "ReplaceComparisonOperator_": (
        "Eq_NotEq NotEq_Eq Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt "
        "Is_IsNot IsNot_Is"
    ),
    "ReplaceBinaryOperator_": (
        "Add_Sub Sub_Add Mul_FloorDiv Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul "
        "RShift_LShift LShift_RShift BitOr_BitAnd BitAnd_BitOr BitXor_BitAnd"
    ),
    "ReplaceUnaryOperator_": "Delete_Not USub_UAdd",
    "Replace": (
        "TrueWithFalse FalseWithTrue AndWithOr OrWithAnd BreakWithContinue "
        "ContinueWithBreak"
    ),
    "": "AddNot NumberReplacer ExceptionReplacer ZeroIterationForLoop",
}
"""Of cosmic-ray's: one or two for each thing that code decides."""


class Membership:
    """Replaces ``in`` by ``not in``, and the reverse."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where it can change a node."""
        if node.type == "comparison":
            for operator in node.children[1::2]:
                if operator.get_code().split() in (["in"], ["not", "in"]):
                    yield operator.start_pos, operator.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Changes it at one of these places."""
        wanted = next(itertools.islice(self.mutation_positions(node), index, None))
        for place, operator in enumerate(node.children):
            if operator.start_pos == wanted[0]:
                other = "in" if operator.type == "comp_op" else "not in"
                node.children[place] = _parsed(f" {other}")
        return node


_OTHERS = {"+=": "-=", "-=": "+=", "|=": "&=", "&=": "|="}


class Assignment:
    """Replaces ``+=`` by ``-=``, ``|=`` by ``&=``, and the reverse."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where it can change a node."""
        if node.type == "operator" and node.value in _OTHERS:
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Changes it."""
        del index
        node.value = _OTHERS[node.value]
        return node


class OmittedCall:
    """Leaves out a call whose result is not used."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where it can change a node."""
        if node.type == "simple_stmt":
            call = node.children[0]
            if call.type in {"atom_expr", "power"}:
                last = call.children[-1]
                if last.type == "trailer" and last.children[0].value == "(":
                    yield call.start_pos, call.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Changes it."""
        del index
        prefix = node.children[0].get_first_leaf().prefix
        node.children[0] = _parsed(f"{prefix}pass")
        return node


def _parsed(code: str) -> NodeOrLeaf:
    return import_module("parso").parse(code)


@cache
def operators() -> dict[str, Any]:
    """All operators, by name."""
    find: Callable[[str], Any] = import_module("cosmic_ray.plugins").get_operator
    own = {each.__name__: each() for each in (Membership, Assignment, OmittedCall)}
    names = [kind + name for kind, each in _CHOSEN.items() for name in each.split()]
    return {**{name: find(f"core/{name}")() for name in names}, **own}


@dataclass
class Mutant:
    """One change of one file, and what came of it."""

    file: str
    operator: str
    occurrence: int
    line: int
    diff: str = ""
    outcome: str = ""
    """``killed``, ``timeout``, ``survived`` or ``uncovered``."""
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


def places(file: str) -> Iterator[Mutant]:
    """Every change that the operators can make in a file."""
    source = (ROOT / file).read_text("utf-8")
    left_out = list(_left_out(ast.parse(source)))
    walk = import_module("cosmic_ray.ast").ast_nodes
    nodes: list[Any] = list(walk(_parsed(source)))
    for name, operator in operators().items():
        positions = (
            (node, start)
            for node in nodes
            for start, _ in operator.mutation_positions(node)
        )
        for occurrence, (node, start) in enumerate(positions):
            if name == "AddNot" and _is_negated_by_others(node):
                continue
            if name == "ExceptionReplacer" and "." in node.get_code():
                continue  # it fails at names with dots
            if not any(first <= start < last for first, last in left_out):
                yield Mutant(file, name, occurrence, start[0])


def _is_negated_by_others(node: Any) -> bool:
    """Whether another operator makes the condition of a branch its opposite."""
    condition = node.children[2 if node.type == "test" else 1]
    return condition.type in {"comparison", "not_test"}


Range = tuple[tuple[int, int], tuple[int, int]]


def _left_out(tree: ast.AST) -> Iterator[Range]:
    """What decides nothing: annotations, texts, log, assertions, decorators."""
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr() | ast.Assert():
                yield _range(node)
            case ast.arg(annotation=ast.expr() as kind):
                yield _range(kind)
            case ast.AnnAssign(annotation=kind):
                yield _range(kind)
            case ast.If(test=ast.Name("TYPE_CHECKING")):
                yield _range(node)
            case ast.Call(func=ast.Attribute(value=ast.Name("_log" | "warnings"))):
                yield _range(node)
            case ast.FunctionDef(name="__repr__" | "__str__"):
                yield _range(node)
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from map(_range, node.decorator_list)
                if not isinstance(node, ast.ClassDef) and node.returns:
                    yield _range(node.returns)
            case _:
                pass


def _range(node: Any) -> Range:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def mutated(mutant: Mutant) -> str | None:
    """The code of a mutant, whose difference is noted; None if it is not another."""
    source = (ROOT / mutant.file).read_text("utf-8")
    change = import_module("cosmic_ray.mutating").mutate_code
    code: str | None = change(source, operators()[mutant.operator], mutant.occurrence)
    if code is None:
        return None
    with suppress(SyntaxError):
        if ast.dump(ast.parse(code)) != ast.dump(ast.parse(source)):
            lines = difflib.unified_diff(
                source.splitlines(), code.splitlines(), lineterm="", n=0
            )
            mutant.diff = "\n".join(list(lines)[3:])
            return code
    return None


def sample(package: str, size: int, seed: int) -> Iterator[tuple[Mutant, str]]:
    """Draws mutants of a subpackage, all alike likely, with their code."""
    files = sorted((ROOT / "actorlib" / package).rglob("*.py"))
    known = [m for file in files for m in places(str(file.relative_to(ROOT)))]
    sys.stdout.write(f"{package}: about {len(known)} mutants\n")
    random.Random(seed).shuffle(known)  # the same ones each time
    return itertools.islice(_different(known), size)


def _different(mutants: Iterable[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Leaves out mutants that are the code itself, or equal to an earlier one."""
    seen: set[tuple[str, int, str]] = set()
    for mutant in mutants:
        code = mutated(mutant)
        if (
            code is not None
            and (key := (mutant.file, mutant.line, mutant.diff)) not in seen
        ):
            seen.add(key)
            yield mutant, code


# Which test executes which line


@final
class Recorder:
    """A plugin of pytest that tells coverage which test runs."""

    def __init__(self, coverage: Any) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self._coverage = coverage

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Names the lines that a test executes after it."""
        is_process = item.get_closest_marker("process") is not None
        known = {"seconds": 0.0, "failed": False, "process": is_process}
        self.tests[item.nodeid] = known
        self._coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes how long a test takes, and that it does not pass."""
        test = self.tests[report.nodeid]
        test["seconds"] += report.duration
        test["failed"] |= report.outcome != "passed"


def record(arguments: list[str], *, is_added: bool) -> int:
    """Runs tests under coverage and stores what they execute."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    lines, tests = OUTPUT / "lines", OUTPUT / "tests.json"
    coverage = import_module("coverage").Coverage(
        data_file=str(lines),
        source=[str(ROOT / "actorlib")],
        concurrency="thread",
        config_file=False,
        messages=False,
    )
    coverage.set_option("run:disable_warnings", ["module-not-measured", "no-sysmon"])
    known: dict[str, Any] = {}
    if is_added:
        known = json.loads(tests.read_text("utf-8"))
        coverage.load()
    else:
        coverage.erase()
    recorder = Recorder(coverage)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    coverage.start()
    try:
        # A late import would count as part of the test that happens to be first.
        for path in sorted((ROOT / "actorlib").glob("_[a-z]*/**/*.py")):
            if path.parent.name not in {"_ray", "_web", "_pytest_plugin"}:
                name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                import_module(name.removesuffix(".__init__"))
        status = pytest.main(["-q", "-m", MARKS, *QUIET, *arguments], [recorder])
    finally:
        coverage.stop()
        coverage.save()
    tests.write_text(json.dumps(known | recorder.tests, indent=0), "utf-8")
    return int(status)


@final
class Record:
    """What was recorded.

    Args:
        depth: How many times the usual number of tests a mutant has.

    Attributes:
        tests: The seconds of each test that passes, and whether it has processes.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        known = json.loads((OUTPUT / "tests.json").read_text("utf-8"))
        self.tests = {
            name: test
            for name, test in known.items()
            if not test["failed"] and (ROOT / _file_of(name)).exists()
        }
        data = import_module("coverage").CoverageData(str(OUTPUT / "lines"))
        data.read()
        self._lines: Callable[[str], dict[int, list[str]]] = cache(
            lambda file: data.contexts_by_lineno(str(ROOT / file))
        )

    def choose(self, mutant: Mutant) -> list[str]:
        """The tests for a mutant: all of its file, then of its folder, then quick ones.

        Among those alike near, each file of tests gives one in turn.
        """
        found = self._covering(mutant) & self.tests.keys()
        subpackage = Path(mutant.file).parts[1]
        folder = "core" if subpackage in IN_CORE else subpackage.strip("_")
        module = ".".join(Path(mutant.file).with_suffix("").parts)
        is_import = not self._of_lines(mutant.file, [mutant.line])
        if not found and subpackage in IN_WORKERS:
            found = {name for name, test in self.tests.items() if test["process"]}
        own = Path(f"tests/{folder}/test_{Path(mutant.file).name}")

        @cache
        def distance(file: str) -> int:
            if Path(file) == own:
                return 0
            is_near = Path(file).parent == own.parent
            return 1 if is_near or module in _text(file) else 2

        if is_import:
            found |= {n for n in self.tests if module in _text(_file_of(n))}

        ranked: list[tuple[int, int, float, str]] = []
        order: Counter[str] = Counter()
        for name in sorted(found, key=lambda name: self.tests[name]["seconds"]):
            file, seconds = _file_of(name), self.tests[name]["seconds"]
            order[file] += 1
            ranked.append((distance(file), order[file], seconds, name))
        chosen: list[str] = []
        files: set[str] = set()
        total, depth = 0.0, self._depth
        for far, _, seconds, name in sorted(ranked):
            if far and len(chosen) >= MOST_TESTS * depth:
                break
            if len(files) == MOST_FILES * depth and _file_of(name) not in files:
                continue
            if total + seconds <= MOST_SECONDS * depth:
                total += seconds
                chosen.append(name)
                files.add(_file_of(name))
        return chosen

    def seconds(self, names: Iterable[str]) -> float:
        """How long tests take together."""
        return sum(self.tests[name]["seconds"] for name in names)

    def _covering(self, mutant: Mutant) -> set[str]:
        """The tests that execute a line; for one of an import, those it matters to."""
        found = self._of_lines(mutant.file, [mutant.line])
        if found:
            return found
        source = (ROOT / mutant.file).read_text("utf-8")
        own = _statement(ast.parse(source), mutant.line)
        match own:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._of_lines(mutant.file, _lines(own))
            case (
                ast.Assign(targets=[ast.Name(name)])
                | ast.AnnAssign(target=ast.Name(name))
            ):
                # A constant, or an attribute of a class.
                found = self._of_lines(mutant.file, _lines(own))
                return found or self._mentioning(name, mutant.file)
            case ast.stmt():
                return self._of_lines(mutant.file, _lines(own))
            case _:
                return set()

    def _mentioning(self, name: str, file: str) -> set[str]:
        found: set[str] = set()
        for path in sorted((ROOT / file).parent.glob("*.py")):
            code = path.read_text("utf-8").splitlines()
            word = re.compile(rf"\b{re.escape(name)}\b")
            numbers = [n for n, line in enumerate(code, 1) if word.search(line)]
            found |= self._of_lines(str(path.relative_to(ROOT)), numbers)
        return found

    def _of_lines(self, file: str, numbers: Iterable[int]) -> set[str]:
        known = self._lines(file)
        return {test for number in numbers for test in known.get(number, ()) if test}


@cache
def _text(file: str) -> str:
    return (ROOT / file).read_text("utf-8")


def _file_of(test: str) -> str:
    return test.partition("::")[0]


def _statement(tree: ast.AST, line: int) -> ast.stmt | None:
    """The innermost statement around a line."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and line in _lines(node)
    ]
    return min(around, key=lambda node: len(_lines(node)), default=None)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


# Runs


@final
class Chosen:
    """A plugin of pytest that runs the chosen tests, and notes what comes of them."""

    def __init__(self, tests: Iterable[str]) -> None:
        self.passed: list[str] = []
        self.failure = ""
        self._tests = set(tests)
        self._failed: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves out the tests that nobody chose."""
        items[:] = [item for item in items if item.nodeid in self._tests]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Notes that a file cannot be imported."""
        if report.failed:
            self._fail(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes what came of a test."""
        if report.outcome != "passed":
            self._fail(report)
        elif report.when == "teardown" and report.nodeid not in self._failed:
            self.passed.append(report.nodeid)

    def _fail(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        self._failed.add(report.nodeid)
        self.failure = self.failure or report.nodeid or "import"


@dataclass
class Order:
    """What a job has to do."""

    tests: list[str]
    limit: float
    file: str = ""
    code: str = ""
    flags: list[str] = field(default_factory=list[str])


def work(folder: Path, *, is_apart: bool) -> None:
    """Runs tests in a copy of the tree, as orders come by stdin."""
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = str(folder)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    for name in PRELOADED.split():
        with suppress(ImportError):
            import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    for turn, line in enumerate(sys.stdin, 1):
        order = Order(**json.loads(line))
        path = folder / order.file
        original = path.read_bytes() if order.file else b""
        if order.file:
            path.write_text(order.code, "utf-8")
            # Bytecode is known by the time of its source: each mutant has its own.
            os.utime(path, (turn, turn))
        started = time.monotonic()
        answer = _fork(order, folder / "answer.json", is_apart=is_apart)
        answer["seconds"] = time.monotonic() - started
        if order.file:
            path.write_bytes(original)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _fork(order: Order, path: Path, *, is_apart: bool) -> dict[str, Any]:
    """Runs the tests of an order in a fork, which is ended in time."""
    path.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            _run(order, path)
        finally:
            os._exit(1)
    ready, _, _ = select.select(
        [descriptor := os.pidfd_open(child)], [], [], order.limit
    )
    os.close(descriptor)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if is_apart and os.getppid() == 1:  # all processes of the namespace are its own
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
    os.waitpid(child, 0)
    if not ready:
        return {"failure": "timeout", "passed": []}
    if not path.exists():
        return {"failure": "the process ended", "passed": []}
    return json.loads(path.read_text("utf-8"))


def _run(order: Order, path: Path) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    chosen = Chosen(order.tests)
    files = list(dict.fromkeys(map(_file_of, order.tests)))
    options = ["-q", "--tb=no", "-p", "no:cacheprovider", *QUIET, *order.flags]
    status = pytest.main([*options, *files], [chosen])
    failure = chosen.failure
    if not failure and status not in {
        pytest.ExitCode.OK,
        pytest.ExitCode.NO_TESTS_COLLECTED,
    }:
        failure = f"pytest: {status!r}"
    path.write_text(json.dumps({"failure": failure, "passed": chosen.passed}), "utf-8")


@final
class Job:
    """A process that does orders, in a copy of the tree that goes with it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mutation-"))
        ignored = shutil.ignore_patterns(
            ".git", ".venv*", ".hypothesis", ".*_cache", "build", "site", "results"
        )
        shutil.copytree(ROOT, self.folder, ignore=ignored, dirs_exist_ok=True)
        command = [sys.executable, str(Path(__file__)), "work", str(self.folder)]
        # As the first process of a namespace, the shell waits for orphans.
        apart = [
            "unshare",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
        ]
        trial = subprocess.run([*apart, "true"], check=False, capture_output=True)
        if trial.returncode == 0:
            command = [*apart, '"$@"; exit $?', "sh", *command, "--apart"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def do(self, order: Order) -> dict[str, Any]:
        """Does an order and waits for the answer."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """Ends it and removes the copy."""
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def examine(
    pairs: list[tuple[Mutant, str]], jobs: int, depth: int, save: Callable[[], None]
) -> None:
    """Finds out which mutants are killed, and notes it in them."""
    recorded = Record(depth)
    free: queue.SimpleQueue[Job] = queue.SimpleQueue()
    started = [Job() for _ in range(jobs)]
    for job in started:
        free.put(job)
    try:
        wanted = sorted({t for mutant, _ in pairs for t in recorded.choose(mutant)})
        order = Order(wanted, limit=60 + 5 * recorded.seconds(wanted))
        answer = started[0].do(order)
        if wanted and not answer["passed"]:
            raise SystemExit(f"no test passes without a mutant: {answer['failure']}")
        passing = set(answer["passed"])
        say = f"{len(passing)} of {len(wanted)} chosen tests pass without a mutant"
        sys.stdout.write(f"{say} ({answer['seconds']:.0f} s) {answer['failure']}\n")
        for name in recorded.tests.keys() & set(wanted) - passing:
            del recorded.tests[name]

        def try_one(number: int, pair: tuple[Mutant, str]) -> None:
            mutant, code = pair
            job = free.get()
            try:
                _try(mutant, code, job, recorded)
            finally:
                free.put(job)
            sys.stdout.write(
                f"{number:4} {mutant.outcome:9} {mutant.seconds:5.1f} s "
                f"{mutant.file}:{mutant.line} {mutant.operator} {mutant.by}\n"
            )
            sys.stdout.flush()
            save()

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(try_one, itertools.count(1), pairs))
    finally:
        for job in started:
            job.close()


def _try(mutant: Mutant, code: str, job: Job, recorded: Record) -> None:
    tests = recorded.choose(mutant)
    mutant.tests, mutant.by, mutant.seconds = len(tests), "", 0.0
    if not tests:
        mutant.outcome = "uncovered"
        return
    limit = 15 + 5 * recorded.seconds(tests)
    answer = job.do(Order(tests, limit, mutant.file, code, ["-x"]))
    mutant.by, mutant.seconds = answer["failure"], round(answer["seconds"], 2)
    is_late = mutant.by == "timeout"
    mutant.outcome = "timeout" if is_late else "killed" if mutant.by else "survived"


# Commands


def is_killed(mutant: Mutant) -> bool:
    """Whether a mutant has been noticed."""
    return mutant.outcome in {"killed", "timeout"}


def summary(mutants: list[Mutant], *, are_listed: bool) -> str:
    """The score, and the mutants that nobody noticed."""
    done = [mutant for mutant in mutants if mutant.outcome]
    counts = Counter(mutant.outcome for mutant in done)
    killed = sum(map(is_killed, done))
    seconds = sum(mutant.seconds for mutant in done)
    lines: list[str] = []
    left: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in done:
        if are_listed and not is_killed(mutant):
            left[mutant.file].append(mutant)
    for file in sorted(left):
        for mutant in sorted(left[file], key=lambda mutant: mutant.line):
            lines += [f"\n{mutant.outcome}: {file}:{mutant.line}", mutant.diff]
    part = 100 * killed / max(1, len(done))
    lines.append(f"\n{killed} of {len(done)} killed: {part:.0f} %  {dict(counts)}")
    lines.append(f"{seconds / max(1, len(done)):.1f} s for each mutant")
    return "\n".join(lines) + "\n"


def score(package: str, size: int, seed: int, jobs: int, depth: int) -> int:
    """Tries a random sample of a subpackage's mutants."""
    pairs = list(sample(package, size, seed))
    mutants = [mutant for mutant, _ in pairs]
    path = OUTPUT / f"{package}.json"

    def save() -> None:
        result = {
            "package": package,
            "seed": seed,
            "mutants": list(map(asdict, mutants)),
        }
        path.write_text(json.dumps(result, indent=1), "utf-8")

    examine(pairs, jobs, depth, save)
    sys.stdout.write(summary(mutants, are_listed=True))
    return 0


def replay(path: Path, only: str, jobs: int, depth: int) -> int:
    """Tries the mutants of an earlier result again, and tells which live now."""
    result = json.loads(path.read_text("utf-8"))
    before = [Mutant(**each) for each in result["mutants"]]
    pairs: list[tuple[Mutant, str]] = []
    earlier: list[Mutant] = []
    for old in before:
        if only and is_killed(old) != (only == "killed"):
            continue
        new = Mutant(old.file, old.operator, old.occurrence, old.line)
        code = mutated(new)
        if code is None or new.diff != old.diff:
            sys.stdout.write(f"changed since: {old.file}:{old.line}\n{old.diff}\n")
            continue
        pairs.append((new, code))
        earlier.append(old)
    mutants = [mutant for mutant, _ in pairs]

    def save() -> None:
        new = {**result, "mutants": list(map(asdict, mutants))}
        path.with_suffix(".replay.json").write_text(json.dumps(new, indent=1), "utf-8")

    examine(pairs, jobs, depth, save)
    lost = [
        new
        for old, new in zip(earlier, mutants, strict=True)
        if is_killed(old) and not is_killed(new)
    ]
    sys.stdout.write(summary(mutants, are_listed=only == "survived"))
    for mutant in lost:
        sys.stdout.write(f"lives now: {mutant.file}:{mutant.line}\n{mutant.diff}\n")
    sys.stdout.write(f"{len(lost)} were killed then and live now\n")
    return bool(lost)


def _add_efforts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--depth", type=int, default=1, help="times as many tests")


def main() -> int:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help="store which test executes which line")
    one.add_argument("--add", action="store_true", help="keep what is stored")
    one.add_argument("pytest", nargs="*", help="files of tests; default: all")
    one = commands.add_parser("score", help="try mutants of a subpackage")
    one.add_argument("package", help="the name of a folder in actorlib")
    one.add_argument("--sample", type=int, default=200)
    one.add_argument("--seed", type=int, default=1)
    _add_efforts(one)
    one = commands.add_parser("replay", help="try the mutants of a result again")
    one.add_argument("file", type=Path)
    one.add_argument("--only", choices=["killed", "survived"], default="")
    _add_efforts(one)
    one = commands.add_parser("work")  # for the driver itself
    one.add_argument("folder", type=Path)
    one.add_argument("--apart", action="store_true")
    given = parser.parse_args()
    match given.command:
        case "record":
            return record(given.pytest, is_added=given.add)
        case "score":
            return score(
                given.package, given.sample, given.seed, given.jobs, given.depth
            )
        case "replay":
            return replay(given.file, given.only, given.jobs, given.depth)
        case _:
            work(given.folder, is_apart=given.apart)
            return 0


if __name__ == "__main__":
    sys.exit(main())
