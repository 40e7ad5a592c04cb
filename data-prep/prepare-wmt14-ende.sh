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
hyphens, 32,000 joint BPE merges, one dictionary; newstest2013 for validation, newstest2014 for testing. Stopped at any
moment, the same command goes on.

  --wmt17                news-commentary v12 in place of v9, as fairseq's prepare-wmt14en2de.sh has it by default
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
text_bytes=([europarl-v7]=620000000 [commoncrawl]=650000000 [nc-v9]=60000000 [nc-v12]=80000000)
known_counts=(with_text~4508785 valid=3000 test=3003)
wmt17='' commentary=v9
switches+='--wmt17 '
parse_dataset_options "$@"
if [[ $wmt17 ]]; then
  commentary=v12
  known_counts=(valid=3000 test=3003)
fi

from_archive europarl-v7 train lines europarl-v7 'europarl-v7.de-en.{lang}'
from_archive commoncrawl train lines commoncrawl 'commoncrawl.de-en.{lang}'
from_archive nc-$commentary train lines nc-$commentary "news-commentary-$commentary.de-en.{lang}"
from_archive valid valid lines dev 'newstest2013.{lang}'
from_archive test test segments test-full 'newstest2014-deen-{role}.{lang}.sgm'
prepare
