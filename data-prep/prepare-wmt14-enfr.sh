#!/usr/bin/env bash
# WMT'14 English-French, from its archives to binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-wmt14-enfr.sh [options] OUT_DIR

Downloads the training data of WMT'14 English-French (europarl v7, commoncrawl, UN, news-commentary v9, giga: 6.6 GB) and
turns its 40 million pairs into fairseq data in OUT_DIR/data-bin as fairseq's prepare-wmt14en2fr.sh does: normalised
punctuation, tokens of Moses split at hyphens, 40,000 joint BPE merges; here with one dictionary, newstest2012 and 2013 for
validation and newstest2014 for testing. Stopped at any moment, the same command goes on.

$(archive_usage)
$(common_usage)

example:
  bash data-prep/prepare-wmt14-enfr.sh --compress --remove-intermediate --workers 32 data/wmt14-enfr
  bash data-prep/prepare-wmt14-enfr.sh --dry-run data/wmt14-enfr
USAGE
}

source_lang=en target_lang=fr dash_splits=yes merges=40000 joined_dictionary=yes max_length=250
recipe=(tokenize subword clean) # cleaning counts subwords, as in fairseq's script
normalized=' train valid '      # as there, not the test set
text_bytes=([europarl-v7]=650000000 [commoncrawl]=900000000 [un]=4200000000 [nc-v9]=60000000 [giga-fren]=7000000000)
known_counts=(with_text~40836715 valid=6003 test=3003)
parse_dataset_options "$@"

from_archive europarl-v7 train lines europarl-v7 'europarl-v7.fr-en.{lang}'
from_archive commoncrawl train lines commoncrawl 'commoncrawl.fr-en.{lang}'
from_archive un train lines un 'undoc.2000.fr-en.{lang}'
from_archive nc-v9 train lines nc-v9 'news-commentary-v9.fr-en.{lang}'
from_archive giga-fren train lines giga-fren 'giga-fren.release2.fixed.{lang}.gz'
from_archive valid valid lines dev 'newstest2012.{lang}' 'newstest2013.{lang}'
from_archive test test segments test-full 'newstest2014-fren-{role}.{lang}.sgm'
prepare
