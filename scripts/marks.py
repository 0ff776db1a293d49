"""Pages of which a part is made: what stands between two comments that name the part."""

from __future__ import annotations


def replaced(text: str, part: str, made: str) -> str:
    r"""Return a page with a part made anew.

    Raises
    ------
    SystemExit
        Where the page lacks one of the part's two marks.

    Examples
    --------
    >>> replaced("a <!-- b -->\nold<!-- end of b --> c", "b", "new ")
    'a <!-- b -->\nnew <!-- end of b --> c'
    """
    begin, end = f"<!-- {part} -->\n", f"<!-- end of {part} -->"
    before, begun, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not (begun and ended):
        raise SystemExit(f"the page has no {begin.strip()} followed by {end}")
    return f"{before}{begin}{made}{end}{after}"
