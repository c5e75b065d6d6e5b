"""The episodes of a run that is recorded, for readers in Python."""

from collections.abc import Iterator

from theatre.api.results import Episode
from theatre.engine.scoring.repeats import outputs_of
from theatre.files.recorded_run import RecordedRun, trouble_of


def read_run(run: RecordedRun) -> Iterator[Episode]:
    """Yield what a run has recorded, in dataset order."""
    for one, asked in run.with_truths():
        code, detail = trouble_of(one)
        yield Episode(
            seq=one.seq,
            episode_id=one.episode_id,
            outcome=one.outcome.value,
            input_data=None if asked is None else asked.input_data,
            answers={} if one.record is None else outputs_of(one.record.document),
            expected=None if asked is None or run.is_withheld else asked.expected_output,
            scores={} if run.is_withheld else one.scores,
            composite=one.composite,
            error=f"{code}: {detail}" if code and detail else code,
        )
