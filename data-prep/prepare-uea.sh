#!/usr/bin/env bash
# A data set of time series, from its files to the folder that our tasks read; see --help.
set -euo pipefail
# shellcheck source=data-prep/pipeline.sh
source "$(dirname "${BASH_SOURCE[0]}")/pipeline.sh"

series_table=$repository/ea_fairseq/data/series.tsv

usage() {
  cat <<USAGE
usage: bash data-prep/prepare-uea.sh [options] NAME OUT_DIR

Takes a data set of the archives of UEA, UCR (timeseriesclassification.com) or of regression (tseregression.org), checks
every line of it, counts its series, and puts it into OUT_DIR/data-bin, train.ts and test.ts, for the tasks
time_series_prediction and masked_time_series. Stopped at any moment, the same command goes on.

Downloaded are $(downloaded | sed 's/ \([^ ]*\)$/ and \1/; s/ /, /g; s/, and,/ and/'). All others, and your own:

  --series DIR           take NAME_TRAIN.ts and NAME_TEST.ts of DIR or DIR/NAME, plain or .gz, or DIR/NAME.zip with both
$(archive_usage)
  --dry-run              print what there is to do, and the disk it needs, and do nothing
  --help                 show this text

example:
  bash data-prep/prepare-uea.sh JapaneseVowels data/japanese-vowels
  bash data-prep/prepare-uea.sh --series ~/Downloads Heartbeat data/heartbeat
USAGE
}

# downloaded: prints the data sets whose files have a known place.
downloaded() {
  sed -n 's/^uea-\(.*\)-train\t.*/\1/p' "$archive_table" | sort -u | paste -sd ' '
}

# file_of SPLIT: prints the file of --series that has a split.
file_of() {
  local place path
  for place in "$series" "$series/$name"; do
    for path in "$place/${name}_${1^^}.ts" "$place/${name}_${1^^}.ts.gz" "$place/$name.zip"; do
      [[ ! -f $path ]] || { realpath "$path" && return; }
    done
  done
  die "--series: $series has no ${name}_${1^^}.ts, ${name}_${1^^}.ts.gz or $name.zip: put the files of $name there."
}

plan_series() {
  local split file bytes=0 needed=() inputs=() checksums=''
  for split in train test; do
    if [[ $series ]]; then
      file=$(file_of "$split")
      checksums+=$(sha256sum <"$file")
      bytes=$((bytes + 5 * $(stat -c %s "$file")))
    else
      plan_download "uea-$name-$split"
      needed+=("archives/uea-$name-$split")
      file=$OUT_DIR/${needed[-1]}
      bytes=$((bytes + archive_bytes[uea-$name-$split]))
    fi
    inputs+=("--$split" "$file")
  done
  plan data-bin "$bytes" "$name $checksums" "${needed[*]}" ours data.take_series "${inputs[@]}" "$name"
}

# series have neither languages nor steps of text; parse_options wants two sides
source_lang=train target_lang=test recipe=() binarize=series
series=''
switches=' --dry-run '
values=' --series --archives --mirror --accept '
parse_options "$@"
((${#folders[@]} == 2)) || die "give the data set and a folder, NAME OUT_DIR, not ${#folders[@]} words: see --help for an example."
name=${folders[0]} OUT_DIR=${folders[1]}
[[ $name =~ ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$ ]] || die "NAME needs the name of a data set, such as JapaneseVowels, not '$name'."
[[ ! $series || -d $series ]] || die "--series: there is no folder $series."
[[ ! $series || ! $archives$mirror ]] || die "--series is files of your own: leave --archives and --mirror out."
[[ $series || " $(downloaded) " == *" $name "* ]] ||
  die "no place is known to have $name: download it from timeseriesclassification.com or tseregression.org, and give its folder with --series."
made_by+=" $name"
check_out_dir
find_python
while IFS=$'\t' read -r set train test channels longest classes; do
  [[ $set != "$name" ]] || known_counts=("train=$train" "test=$test" "channels=$channels" "longest=$longest" "classes=$classes")
done <"$series_table"
prepare
