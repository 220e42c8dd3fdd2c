#!/bin/sh
# Makes the virtual environment: sh scripts/make_venv.sh FOLDER
# Pinned by constraints.txt; the two data wheels by their hashes. Safe to run again after it broke off.
set -eu
venv=$1

find_python() {
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
}

python=$(find_python)
if [ -z "$python" ]; then
    echo "Python 3.11 or newer is needed and was not found. Debian: apt-get install python3 python3-venv; macOS: brew install python" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    echo "$python ($version) cannot make virtual environments. Debian: apt-get install python3-venv (or python$version-venv)" >&2
    exit 1
fi

echo "Installing into $venv, once; a few minutes and about 3 GB"
if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
"$venv/bin/python" -m pip install -qq --upgrade pip
"$venv/bin/python" -m pip install -qq -c constraints.txt -e ".[platform,training,dev]"
"$venv/bin/python" -m pip install -qq --no-deps --require-hashes -r requirements-data.txt
