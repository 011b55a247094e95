"""What the proxy counted, from its /metrics page."""

import urllib.request
from collections import Counter

from engines import Engine


def read(proxy: Engine) -> Counter[str]:
    """Every counter of the page, summed over its labels; histograms are left out."""
    with urllib.request.urlopen(proxy.address + "/metrics", timeout=10) as reply:
        text = reply.read().decode()
    counters: set[str] = set()
    out: Counter[str] = Counter()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ", 3)
            if kind == "counter":
                counters.add(name)
        elif line and not line.startswith("#"):
            name, value = line.partition("{")[0].split(" ")[0], line.rpartition(" ")[2]
            if name in counters:
                out[name] += int(float(value))
    return out
