from __future__ import annotations

from feduplink.experiments import network_size

from .made import FAILS, HOLDS, IN_PART, Pairs, sweep, verdicts

SIZES = 5
OTHERS: dict[str, Pairs] = {name: [(0.9, 0.01)] * SIZES for name in ("openloop", "pdx", "optimum")}


def _falling(first: float, step: float, per: float) -> Pairs:
    return [(first - step * place, per) for place in range(SIZES)]


def test_pdg_ahead_and_losing_less():
    result = sweep(
        rand=_falling(0.5, 0.1, 0.5),
        orth=_falling(0.5, 0.1, 0.4),
        pdg=_falling(0.8, 0.05, 0.3),
        **OTHERS,
    )
    claims = network_size.claims(result)
    assert verdicts(claims) == [HOLDS, HOLDS]
    # From the second size, 8 workers, to the last.
    assert "rand −0.300, orth −0.300, pdg −0.150" in claims[1].measured


def test_pdg_behind_one_and_losing_more():
    result = sweep(
        rand=_falling(0.5, 0.01, 0.5),
        orth=_falling(0.5, 0.01, 0.2),
        pdg=_falling(0.8, 0.05, 0.3),
        **OTHERS,
    )
    assert verdicts(network_size.claims(result)) == [IN_PART, FAILS]
