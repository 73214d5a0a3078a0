#!/bin/sh
# Writes man pages and completions of the command HANARE below the folder TO: `manual.sh HANARE TO`.
set -eu
hanare=$1 share=$2/share
install -d "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
"$hanare" man "$share/man/man1"
"$hanare" completions bash >"$share/bash-completion/completions/hanare"
"$hanare" completions zsh >"$share/zsh/site-functions/_hanare"
"$hanare" completions fish >"$share/fish/vendor_completions.d/hanare.fish"
