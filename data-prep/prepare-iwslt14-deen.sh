#!/usr/bin/env bash
# IWSLT'14 German-English, from its archive to binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-iwslt14-deen.sh [options] OUT_DIR

Downloads IWSLT'14 German-English (20 MB) and turns it into fairseq data in OUT_DIR/data-bin as fairseq's
prepare-iwslt14.sh does: tokens of Moses, lower-cased, every 23rd of the cleaned pairs for validation, 10,000 joint BPE
merges, a dictionary for each language; train 160,239, valid 7,283 and test 6,750 pairs. Stopped at any moment, the same
command goes on.

$(archive_usage)
$(common_usage)

example:
  bash data-prep/prepare-iwslt14-deen.sh data/iwslt14
  bash data-prep/prepare-iwslt14-deen.sh --archives ~/downloads --moses ~/mosesdecoder data/iwslt14-moses
USAGE
}

source_lang=de target_lang=en lowercase=yes
recipe=(tokenize clean split subword)
normalized=''
valid_every=23
text_bytes=([train]=35000000)
known_counts=(train=160239 valid=7283 test=6750 dict.de=8848 dict.en=6632)
parse_dataset_options "$@"

from_archive train train tags iwslt14-de-en 'de-en/train.tags.de-en.{lang}'
from_archive test test segments iwslt14-de-en \
  'IWSLT14.TED.dev2010.de-en.{lang}.xml' \
  'IWSLT14.TEDX.dev2012.de-en.{lang}.xml' \
  'IWSLT14.TED.tst2010.de-en.{lang}.xml' \
  'IWSLT14.TED.tst2011.de-en.{lang}.xml' \
  'IWSLT14.TED.tst2012.de-en.{lang}.xml'
prepare
