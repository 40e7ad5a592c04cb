"""A plan of steps: made first, then shown or run. Only missing steps that the last one needs are run."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ea_fairseq.errors import UserError, printable
from ea_fairseq.plain.output_folder import OutputFolder, remove

UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True)
class Step:
    """A step that makes one output.

    Args:
        output: its path in the folder of the preparation.
        make: writes it to the given path.
        checksum: checksum of all that the output depends on, including the steps that it needs.
        needs: outputs of other steps.
        size: about how many bytes it writes; 0 if unknown or hardly any.
        unsized: what the plan shows if the size is 0.
        place: where its links lead, if it makes links.
        remark: a remark for the plan's reader.
        intermediate: whether it is text between sources and result.
    """

    output: str
    make: Callable[[Path], object]
    checksum: str
    needs: tuple[str, ...] = ()
    size: int = 0
    unsized: str = "small"
    place: str = ""
    remark: str = ""
    intermediate: bool = False

    @property
    def stamp(self) -> str:
        """The text that records how the output was made."""
        return f"{self.checksum} {self.place}".rstrip()


class Plan:
    """Steps in their order; the last one makes the result."""

    def __init__(self) -> None:
        self.steps: dict[str, Step] = {}

    def add(
        self, output: str, make: Callable[[Path], object], settings: object, needs: tuple[str, ...] = (), **more: Any
    ) -> str:
        """Plans a step, and returns its output.

        Args:
            settings: all that the output depends on besides the steps that it needs; their text is in the checksum.
            more: other fields of :class:`Step`.
        """
        text = "\n".join([f"{output} {settings}", *(self.steps[name].checksum for name in needs)])
        self.steps[output] = Step(output, make, sha256(text.encode()).hexdigest(), needs, **more)
        return output

    def todo(self, folder: OutputFolder) -> list[Step]:
        """Returns the steps to run."""
        todo, wanted = list[Step](), {list(self.steps)[-1]}
        for step in reversed(self.steps.values()):
            if step.output in wanted and not folder.is_made(step.output, step.stamp):
                todo.insert(0, step)
                wanted.update(step.needs)
        return todo

    def run(self, folder: OutputFolder, remove_intermediate: bool) -> None:
        """Runs the steps of :meth:`todo`; raises UserError if the disk is too small for them."""
        todo = self.todo(folder)
        for step in todo:
            remove(folder.unfinished(step.output))
        begun = sum(part.stat().st_size for part in folder.path.glob("archives/*.part"))  # downloads that go on
        needed, free = self.disk_needed(todo, remove_intermediate), disk_free(folder.path) + begun
        if needed > free:
            raise UserError(
                f"{folder.path} needs about {human(needed)} and its disk has {human(free)} free: free some, use "
                "another disk, or try --compress and --remove-intermediate."
            )
        if not todo:
            folder.say(f"{list(self.steps)[-1]}: already made")
        while todo:
            if remove_intermediate:
                self.remove_unneeded(folder, todo)
            step = todo.pop(0)
            folder.stage(step.output, step.stamp, step.make)
        if remove_intermediate:
            self.remove_unneeded(folder, todo)

    def remove_unneeded(self, folder: OutputFolder, todo: list[Step]) -> None:
        """Removes the text that none of the steps to run needs."""
        for step in self.steps.values():
            path = folder.path / step.output
            if step.intermediate and path.exists() and not is_needed(step.output, todo):
                folder.say(f"{step.output}: no longer needed, removing it")
                folder.discard(step.output)
                with suppress(OSError):
                    path.parent.rmdir()

    def disk_needed(self, todo: list[Step], remove_intermediate: bool) -> int:
        """Returns about how many bytes of disk the steps to run will take at most."""
        now = most = 0
        for number, step in enumerate(todo):
            now += step.size
            most = max(most, now)
            if remove_intermediate:
                later = todo[number + 1 :]
                made = [other for other in todo if other.output in step.needs and other.intermediate]
                now -= sum(other.size for other in made if not is_needed(other.output, later))
        return most

    def show(self, folder: OutputFolder, remove_intermediate: bool) -> None:
        """Prints the steps to run and the disk they take."""
        todo = self.todo(folder)
        print(printable(f"plan for {folder.path}:"))
        for step in self.steps.values():
            size, remark = "", "(nothing to do)"
            if step in todo:
                size = human(step.size) if step.size else step.unsized
                other = "in place of other" if folder.is_other(step.output, step.stamp) else ""
                remark = ", ".join(filter(None, [step.remark, other]))
            print(printable(f"  {step.output:38} {size:>9}  {remark}"))
        needed = human(self.disk_needed(todo, remove_intermediate))
        print(f"disk: about {needed} needed, {human(disk_free(folder.path))} free")


def is_needed(output: str, steps: list[Step]) -> bool:
    """Whether one of the steps needs an output."""
    return any(output in step.needs for step in steps)


def disk_free(folder: Path) -> int:
    """Returns how many bytes are free on the disk of a folder, which need not exist."""
    while not folder.is_dir():
        folder = folder.parent
    return shutil.disk_usage(folder).free


def human(size: int) -> str:
    """Formats a size for readers, rounded up."""
    power = 0
    while (tenths := -(-10 * size // 1000**power)) >= 10_000:
        power += 1
    return f"{tenths / 10:.1f}{UNITS[power]}"
