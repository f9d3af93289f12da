"""Every trade of ten tickers in a day."""

from __future__ import annotations

import numpy as np
import pandas as pd

import seqube as sq

FILE, TYPE = "stock_trace_wpi", "ticker"


def q17(events: sq.Events) -> dict[str, int]:
    """V-shapes: a fall of at least three trades and a rise above the start, per ticker"""
    query = """STRICT(ANY s, ANY{3,} d, ANY+ u)
               WHERE d.price < PREV(d.price) AND d.price < s.price
                 AND u.price > PREV(u.price) AND FIRST(u.price) > LAST(d.price) AND LAST(u.price) > s.price
               PARTITION BY ticker WITHIN 1 day ORDER BY seq
               RETURN s.ticker AS ticker"""
    return sq.run(query, events).to_pandas().ticker.value_counts().to_dict()


def q17_pandas(log: pd.DataFrame) -> dict[str, int]:
    found = {}
    for ticker, own in log.groupby("ticker"):
        prices, n = own.price.to_list(), 0
        for start in range(len(prices)):
            low = start
            while low + 1 < len(prices) and prices[low + 1] < prices[low]:
                low += 1
            top = low
            while top + 1 < len(prices) and prices[top + 1] > prices[top]:
                top += 1
            n += low - start >= 3 and top > low and prices[top] > prices[start]
        if n:
            found[ticker] = n
    return found


def q18(events: sq.Events) -> int:
    """Three rising trades of MSFT within a second, consecutive"""
    return len(sq.run("STRICT(MSFT{3} m) WHERE m.price > PREV(m.price) WITHIN 1 s ORDER BY seq", events))


def q18_pandas(log: pd.DataFrame) -> int:
    is_msft = log.ticker == "MSFT"
    rises = is_msft & is_msft.shift(1, fill_value=False) & (log.price.diff() > 0)
    quick = log.ts - log.ts.shift(2) < pd.Timedelta("1s")
    return int((rises & rises.shift(1, fill_value=False) & quick).sum())


def q19(events: sq.Events) -> dict[int, int]:
    """Matches of DELL, then IPIX, then QQQ within 2 s, per hour of the day, each counted once"""
    hours = sq.run("SEQ(DELL a, IPIX b, QQQ c) AGG COUNT(*) AS n WITHIN 2 s EMIT PER 1 hour", events).table.to_pylist()
    return {row["ts"].hour: row["n"] for row in hours}


def q19_pandas(log: pd.DataFrame) -> dict[int, int]:
    window = np.timedelta64(2, "s")
    dell, ipix, qqq = (log.ts[log.ticker == name].to_numpy() for name in ("DELL", "IPIX", "QQQ"))
    hours = pd.DatetimeIndex(qqq).hour.to_numpy()
    found = np.zeros(24, int)
    for moment in ipix:
        starts = dell[np.searchsorted(dell, moment - window, "right") : np.searchsorted(dell, moment)]
        after = np.searchsorted(qqq, moment, "right")
        for until in np.searchsorted(qqq, starts + window):
            found += np.bincount(hours[after:until], minlength=24)
    return {hour: int(n) for hour, n in enumerate(found) if n}
