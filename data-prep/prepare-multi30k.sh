#!/usr/bin/env bash
# Multi30k English-German or English-French, from its files to binarised fairseq data; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-multi30k.sh [options] OUT_DIR

Downloads Multi30k (task 1: captions of images, 1.3 MB) and turns it into fairseq data in OUT_DIR/data-bin: normalised
punctuation, tokens of Moses, 10,000 joint BPE merges, a dictionary for each language; train 29,000, valid 1,014 and test
1,000 pairs (2016, Flickr), none of them left out. Stopped at any moment, the same command goes on.

  --source-lang xx       de, en or fr; one of the two is en (default: en)
  --target-lang yy       the other language (default: de)
  --lowercase            lower-case both languages
$(archive_usage)
$(common_usage)

example:
  bash data-prep/prepare-multi30k.sh --source-lang de --target-lang en --lowercase --merges 6000 \\
    --joined-dictionary data/multi30k-deen
USAGE
}

source_lang=en target_lang=de max_length=250 ratio=100
text_bytes=([train]=4200000)
known_counts=(train=29000 valid=1014 test=1000)
switches+='--lowercase '
values+='--source-lang --target-lang '
parse_dataset_options "$@"
[[ $source_lang-$target_lang =~ ^(en-de|de-en|en-fr|fr-en)$ ]] ||
  die "Multi30k has English with German or French, not $source_lang with $target_lang: see --help."

from_archive train train lines 'multi30k-train.{lang}' 'train.{lang}.gz'
from_archive valid valid lines 'multi30k-val.{lang}' 'val.{lang}.gz'
from_archive test test lines 'multi30k-test_2016_flickr.{lang}' 'test_2016_flickr.{lang}.gz'
prepare
