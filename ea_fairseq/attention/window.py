"""Windows are in ``kernels/window.py``; those of the three attentions can be imported from here, too."""

from ea_fairseq.kernels.window import WINDOWS as WINDOWS
