"""The data that a page of ours holds for its script."""

import json
import re


def data_of(page: str) -> dict:
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found)
