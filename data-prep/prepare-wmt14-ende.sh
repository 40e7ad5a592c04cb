#!/usr/bin/env bash
# WMT'14 English-German, from its archives to binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-wmt14-ende.sh [options] OUT_DIR

Downloads the training data of WMT'14 English-German (europarl v7, commoncrawl, news-commentary v9: 1.7 GB for all the
languages in them) and turns it into fairseq data in OUT_DIR/data-bin: normalised punctuation, tokens of Moses split at
hyphens, 32,000 joint BPE merges, one dictionary; newstest2013 for validation, newstest2014 for testing. Not WMT'17, which
fairseq's prepare-wmt14en2de.sh gives by default. Stopped at any moment, the same command goes on.

$(archive_usage)
$(common_usage)

example:
  bash data-prep/prepare-wmt14-ende.sh --compress --remove-intermediate data/wmt14-ende
  bash data-prep/prepare-wmt14-ende.sh --archives data/wmt14-enfr/archives --subsample 100000 data/wmt14-ende-trial
USAGE
}

source_lang=en target_lang=de dash_splits=yes merges=32000 joined_dictionary=yes max_length=250
recipe=(tokenize subword clean) # cleaning counts subwords, as in fairseq's script
normalized=' train valid '      # as there, not the test set
text_bytes=([europarl-v7]=620000000 [commoncrawl]=650000000 [nc-v9]=60000000)
known_counts=(with_text=4508785 valid=3000 test=3003)
parse_dataset_options "$@"

from_archive europarl-v7 train lines europarl-v7 'europarl-v7.de-en.{lang}'
from_archive commoncrawl train lines commoncrawl 'commoncrawl.de-en.{lang}'
from_archive nc-v9 train lines nc-v9 'news-commentary-v9.de-en.{lang}'
from_archive valid valid lines dev 'newstest2013.{lang}'
from_archive test test segments test-full 'newstest2014-deen-{role}.{lang}.sgm'
prepare
