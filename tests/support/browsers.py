"""Whether there is a browser for tests to drive."""

import pytest

from ea_fairseq.experiments.demo.pictures import CHROMEDRIVER, CHROMIUM

needs_browser = pytest.mark.skipif(
    not (CHROMIUM and CHROMEDRIVER), reason="needs Chromium: apt-get install chromium chromium-driver"
)
