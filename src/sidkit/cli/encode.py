"""sidkit encode: semantic IDs of embeddings."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ..errors import InputError, SpecError, count_of
from .collisions import (
    CapacityOption,
    CollisionChoice,
    PolicyOption,
    PopularityOption,
    RoomOption,
    describe_policy,
    split_keep,
    weights_of,
)
from .columns import ColumnNotes, as_fitted
from .inputs import open_source
from .options import BadRows, BadRowsOption, Column, Device, IdColumn, Json, Location, TemplateOption, location
from .outputs import TABLES, require_file, require_writable
from .ray import Cpus, Ray, Workers, print_encoded, require_ray, rows_on_ray
from .swapped import require_order

if TYPE_CHECKING:
    from ..progress import Progress
    from ..sids.origin import Origin
    from ..sids.policies import Policy
    from ..sids.table import SidTable
    from ..tokenizer.catalogue import Settled
    from ..tokenizer.tokenizer import FittedTokenizer


def encode(
    tokenizer: Annotated[Path, typer.Argument(help="Folder written by `sidkit fit`", show_default=False)],
    embeddings: Annotated[str, typer.Argument(help="Vectors as for fit; - reads JSON lines", show_default=False)],
    output: Annotated[
        Location,
        typer.Option(
            "--output",
            "-o",
            help="File to write: .parquet, .csv, .tsv or .jsonl; - prints id<tab>sid",
            show_default=False,
            parser=location,
            metavar="PATH",
        ),
    ],
    template: TemplateOption = "letters",
    policy: PolicyOption = None,
    spread: Annotated[
        bool,
        typer.Option("--spread", help="Short for --policy nearest: items that would share a SID take free last codes"),
    ] = False,
    capacity: CapacityOption = None,
    number: Annotated[
        bool,
        typer.Option("--number", help="Equal embeddings take different codes of a private codebook (rq-opq, prq-opq)"),
    ] = False,
    popularity: PopularityOption = None,
    room: RoomOption = 256,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            help="Published SIDs, as old.parquet, whose items keep theirs; or further columns to copy, as title,brand",
        ),
    ] = None,
    id_column: IdColumn = None,
    column: Column = None,
    bad_rows: BadRowsOption = BadRows.error,
    verify: Annotated[
        bool, typer.Option("--verify", help="Refuse embeddings that differ from those of the fit, by their fingerprint")
    ] = False,
    device: Device = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Resume an encoding that was stopped")] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Discard what another tokenizer left unfinished; replace a file that sidkit did not write"
        ),
    ] = False,
    ray: Ray = None,
    workers: Workers = None,
    cpus: Cpus = 1,
    as_json: Json = False,
) -> None:
    """sidkit encode tok/ items.parquet -o sids.parquet

    Give every embedding its semantic ID. Row order and ids are kept. An encoding that is stopped leaves its finished
    part beside the output, as OUTPUT.unfinished, and --resume continues from there. With --ray the output is a folder,
    or an address such as s3://bucket/sids, with a file for every file of embeddings; files that the same tokenizer made
    from the same embeddings before are kept. With --spread, and with every --policy that moves items, the last token
    of an item depends on the other items, so encode the whole catalogue at once. With --keep old.parquet the items of
    that file keep their SIDs, and new items get none of those: without --policy they take the nearest free last code.
    """
    from ..data.kept import kept_columns
    from ..sids.template import template_named
    from ..tokenizer.numbering import require_private
    from ..tokenizer.tokenizer import load

    require_ray(ray, workers, cpus)
    template_named(template)
    require_order("encode", tokenizer=tokenizer, embeddings=embeddings)
    fitted, to_stream = load(tokenizer), str(output) == "-"
    names, published = split_keep(keep)
    further = kept_columns(names, ("item_id", "codes", "sid"))
    if spread and policy not in (None, "nearest"):
        raise SpecError(f"--spread is --policy nearest; leave it out with --policy {policy}")
    choice = CollisionChoice("nearest" if spread else policy, capacity, room, published, popularity)
    choice.check()
    if number:
        require_private(fitted)
    if number and (published or ray is not None):
        raise SpecError("--number needs the whole catalogue at once; leave out --ray and --keep with published SIDs")
    if to_stream and as_json:
        raise SpecError("--json reports what was written to a file; -o - prints the semantic IDs themselves")
    if to_stream and further:
        raise SpecError("--keep copies columns to a file; -o - prints ids and semantic IDs alone")
    if ray is not None and to_stream:
        raise SpecError("with --ray the output is a folder or an address, not -")
    if ray is not None and verify:
        raise SpecError("--verify reads the embeddings on one machine; it cannot be combined with --ray")
    if ray is not None and choice.asked:
        name = "--spread" if spread else "--keep" if published else "--policy"
        raise SpecError(f"{name} needs all items on one machine; it cannot be combined with --ray")
    columns = as_fitted(fitted, embeddings, id_column, column)
    job = EncodeJob(
        tokenizer,
        fitted,
        embeddings,
        output,
        template,
        choice,
        further,
        columns,
        bad_rows,
        device,
        resume,
        force,
        verify,
        number,
    )
    if ray is not None:
        job.on_ray(ray, workers, cpus, as_json)
    else:
        job.here(as_json)


class EncodeJob(NamedTuple):
    """What to encode, by which tokenizer, and how."""

    tokenizer: Path
    fitted: "FittedTokenizer"
    embeddings: str
    output: Location
    template: str
    choice: CollisionChoice
    keep: tuple[str, ...]
    columns: tuple[str | None, str | None]  # of ids and vectors
    bad_rows: BadRows
    device: str
    resume: bool
    force: bool
    verify: bool = False
    number: bool = False

    def on_ray(self, ray: str, workers: int | None, cpus: int, as_json: bool) -> None:
        """A file for every file of embeddings, by the workers of a cluster."""
        from ..data.source import chosen_columns
        from .terminal import Terminal

        require_writable(self.output)
        notes = ColumnNotes()
        with Terminal() as progress:
            options = (ray, workers, cpus, *self.columns, self.device, self.bad_rows, progress)
            with rows_on_ray(self.embeddings, *options, check=False) as rows:
                notes.add("embeddings", self.embeddings, chosen_columns(rows.source))
                origin = self._origin(rows.source)
                done = rows.encode(self.fitted, self.output, self.template, self.bad_rows.value, self.keep, origin)
        print_encoded(done, self.output, rows.ran_on(), as_json, notes)

    def here(self, as_json: bool) -> None:
        """All items into one file, or to standard output."""
        from ..data.kept import read_kept
        from ..data.source import chosen_columns
        from ..sids.collision_note import collision_note
        from ..sids.table import SidTable
        from ..tokenizer.pairs import verify_fitted_on
        from .terminal import Terminal

        to_stream, notes = str(self.output) == "-", ColumnNotes()
        if not to_stream:
            require_file(self.output, self.embeddings, self.choice.published, endings=TABLES, force=self.force)
        published = self.choice.read_published()
        policy = self.choice.chosen(self.fitted, published) if self.choice.asked else None
        ran: dict[str, Any] = {}
        digests: dict[str, str] = {}
        with ExitStack() as stack:
            with Terminal() as progress:
                source = open_source(self.embeddings, *self.columns, self.bad_rows, self.output, progress)
                notes.add("embeddings", self.embeddings, chosen_columns(source))
                if self.verify:
                    verify_fitted_on(self.fitted, self.tokenizer, source, self.embeddings)
                more = read_kept(source, self.keep)
                saved = None if to_stream else stack.enter_context(self._unfinished())
                weights = weights_of(source, self.choice.popularity)
                made = self._codes(source, saved, published, policy, weights, ran, digests, progress)
            origin = self._origin(source, digests.get("embeddings", ""))
            table = SidTable(source.ids, made.codes, made.sizes, self.template, origin)
            if not to_stream:
                table.to_file(self.output, notes=collision_note(made.facts) if made.facts else None, more=more)
        if as_json:
            facts = {"output": str(self.output), "items": len(table), "sizes": made.sizes, "ran": ran}
            print(json.dumps(facts | ({"collisions": made.facts} if made.facts else {}) | notes.field()))
            return
        notes.print()
        if made.facts:
            print(describe_policy(made.facts), file=sys.stderr if to_stream else sys.stdout)
        if to_stream:
            _print_lines(table)
        else:
            _print(len(table), self.output, ran)

    def _codes(
        self,
        source: Any,
        saved: Path | None,
        published: "SidTable | None",
        policy: "Policy | None",
        weights: Any,
        ran: dict[str, Any],
        digests: dict[str, str],
        progress: "Progress",
    ) -> "Settled":
        """The codes of all rows after the policy, if there is one."""
        from ..tokenizer.catalogue import Settled
        from ..tokenizer.spread import copied_if_slow

        rows = source
        if policy is not None and policy.needs_costs:
            scratch = None if saved is None else saved.absolute().parent
            rows = copied_if_slow(source, self.fitted.d, scratch, progress)
        codes = self.fitted.encode(rows, self.device, progress, saved, False, ran, digests, self.number)
        if policy is None:
            return Settled(codes, tuple(self.fitted.sizes), {})
        return self.choice.settle(self.fitted, rows, source.ids, codes, published, weights, progress)

    @contextmanager
    def _unfinished(self) -> Iterator[Path]:
        """The folder of states beside the output; an error if another tokenizer started it."""
        from ..files.unfinished import Unfinished, unfinished_folder
        from ..tokenizer.pairs import note_start, require_started_by

        resume = self.resume
        if resume:
            try:
                require_started_by(unfinished_folder(self.output), self.fitted, self.tokenizer)
            except InputError:
                if not self.force:
                    raise
                resume = False
        with Unfinished(self.output, resume) as folder:
            note_start(folder, self.fitted, self.tokenizer)
            yield folder

    def _origin(self, source: Any, embeddings_digest: str = "") -> "Origin":
        from ..data.source import id_name_of
        from ..files.address import locate
        from ..sids.origin import Origin

        names = str(self.tokenizer), self.fitted.digest, str(locate(self.embeddings))
        return Origin(id_name_of(source), *names, embeddings_digest)


def _print_lines(table: "SidTable") -> None:
    """id<tab>sid, a line per item. A pipe gets ids as they are, a terminal only what it can show."""
    from .terminal import plain

    shown: Any = plain if sys.stdout.isatty() else str
    for item, sid in zip(table.ids.to_pylist(), table.strings().to_pylist(), strict=True):
        print(f"{shown(item)}\t{sid}")


def _print(items: int, output: "Location", ran: dict[str, Any]) -> None:
    from ..rows.run_report import describe_run
    from .printing import command_line

    if ran:
        print(describe_run(ran))
    print(f"wrote {count_of(items, 'semantic ID')} to {output}; next: {command_line('report', output)}")
