"""An attempt to apply a plan: brought into force, judged, perhaps taken back, and how it ended."""

from __future__ import annotations

from collections.abc import Callable

from harness.app.submitted.folder import Outcome
from harness.errors import HarnessError

NOT_ABOVE = "the measured mean is not above the predicted interval"


class PlanAttempt:
    """An attempt; how it ended is known at every moment, whatever ends the command.

    Parameters
    ----------
    bring : callable
        Returns once the plan is in force.
    judge : callable
        Measures it, and says why it should not be kept; empty where it should.
    bring_back : callable
        Returns once the plan before is in force again.

    Attributes
    ----------
    outcome : Outcome
    reason : str

    Examples
    --------
    >>> attempt = PlanAttempt(lambda: None, lambda: "slower than predicted", lambda: None)
    >>> attempt.carry_out(keep=False)
    >>> attempt.outcome, attempt.reason
    ('taken back', 'slower than predicted')
    """

    def __init__(
        self, bring: Callable[[], None], judge: Callable[[], str], bring_back: Callable[[], None]
    ) -> None:
        self._bring = bring
        self._judge = judge
        self._bring_back = bring_back
        self.outcome: Outcome = "failed"
        self.reason = ""

    def carry_out(self, *, keep: bool) -> None:
        """Bring the plan into force, judge it, and take it back where it should not be kept.

        The wish to end, or an error that is none of the harness, is raised again once the plan is back.

        Parameters
        ----------
        keep : bool
            Leave a plan that should not be kept; one that is interrupted is taken back all the same.
        """
        in_force = False
        try:
            self._bring()
            in_force = True
            why = self._judge()
        except HarnessError as error:
            why = str(error)
        except KeyboardInterrupt as stop:  # nobody knows how good the plan is
            self._take_back("interrupted", f"stopped by {stop}" if str(stop) else "stopped")
            raise
        except BaseException as error:
            self._take_back("failed", f"{type(error).__name__}: {error}")
            raise
        if why and not keep:
            self._take_back("taken back", why)
        else:
            self.outcome, self.reason = "kept" if in_force else "failed", why or NOT_ABOVE

    def _take_back(self, outcome: Outcome, why: str) -> None:
        """Bring the plan before into force again; the attempt ends so where that comes."""
        self.outcome, self.reason = "interrupted", f"{why}; the plan before was not waited for"
        try:
            self._bring_back()
        except HarnessError as error:
            self.outcome, self.reason = "failed", f"{why}; the plan before did not come back: {error}"
        else:
            self.outcome, self.reason = outcome, why
