# Installs a Debian package as root, and starts no service that it brings.
set -eu
apt-get -qq update
if [ "$1" = valkey-server ] && grep -q '=bookworm$' /etc/os-release && ! apt-cache show valkey-server >/dev/null 2>&1; then
  # Debian 12 has it in its backports only. They are on the mirror that this machine uses.
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Release: bookworm' | head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" \
    >/etc/apt/sources.list.d/bookworm-backports.list
  apt-get -qq update
fi
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  trap 'rm -f $policy' EXIT
  printf '#!/bin/sh\nexit 101\n' >$policy
  chmod 755 $policy
fi
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends -o DPkg::Lock::Timeout=300 "$1"
if command -v systemctl >/dev/null; then systemctl -q disable "$1" 2>/dev/null || true; fi
