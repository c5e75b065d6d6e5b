#!/bin/sh
# sh verify-with-openssl.sh BUNDLE trust.json: a key of trust.json signed this certificate of these files.
set -eu
signed="${1:?expected a bundle, and after it the trust.json of its issuer}/proofs/certificate.sigstore.json" work=$(mktemp -d); trap 'rm -r "$work"' EXIT
field() { grep -o "\"$1\":\"[^\"]*\"" "$signed" | cut -d '"' -f 4; }
key=$(tr -d ' \n' < "$2" | grep -o "\"kid\":\"$(field keyid)\",\"public_key\":\"[^\"]*\"" | cut -d '"' -f 8)
printf -- '-----BEGIN PUBLIC KEY-----\n%s\n-----END PUBLIC KEY-----\n' "$key" > "$work/key.pem"
field payload | base64 -d > "$work/statement"; field sig | base64 -d > "$work/signature"
printf 'DSSEv1 28 application/vnd.in-toto+json %d ' "$(wc -c < "$work/statement")" | cat - "$work/statement" > "$work/pae"
no() { echo "not valid: $1" >&2; exit 1; }
openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/signature" "$work/pae" > "$work/said" || no "the signature"
case $(cat "$work/statement") in
'{"_type":"https://in-toto.io/Statement/v1","predicate":{"certificate":'"$(cat "$1/certificate.json")"',"commitment_log":'*\
'},"predicateType":"urn:echelon:attestation:calibration-certificate:v1","subject":[{"digest":{"sha256":"'"$(sha256sum < "$1/SHA256SUMS" | cut -c -64)"'"},"name":"SHA256SUMS"}]}') ;;
*) no "another certificate, or other files, were signed" ;;
esac
(cd "$1" && sha256sum --check --quiet SHA256SUMS) && cat "$work/said"
