# SPDX-License-Identifier: Apache-2.0
"""The two scripts of a Flux job: one prepares a volume, in an init container; the other one runs on each node.

The image of the init container (the view) has Flux, which is copied to a shared volume, so that training can use any
image. Both scripts use this volume below /mnt/flux. `$name` is replaced by a value; `$$` is the `$` of the shell.
"""

from string import Template

INIT = Template("""\
#!/bin/bash
# Prepares the volume that the nodes run Flux from. Runs once per pod, in the image of the view.
set -eu

root=/opt/view
install=/mnt/flux/config
mainHost="$main_host"
hosts="$hosts"

export PATH="$${root}/bin:$${PATH}"
mkdir -p "$${root}/bin"
mkdir -p "$${install}/etc/flux/system/cron.d" "$${install}/var/lib/flux" "$${install}/etc/flux/config" \\
  "$${install}/run/flux" "$${install}/etc/curve"

echo "$${hosts}" > "$${install}/etc/flux/system/hostlist"

cat <<'EOT' >> $${install}/etc/flux/config/broker.toml
$broker
EOT

mkdir -p /mnt/flux/view
view=$$(echo /opt/views/._view/*)
cp -R "$${view}"/* /mnt/flux/view/
cp -R /opt/software /mnt/flux/
touch /mnt/flux/flux-operator-done.txt
""")

BROKER = Template("""\
[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://$device:%p"
default_connect = "tcp://%h.$subdomain.$namespace.svc.cluster.local:%p"
hosts = [
  { host = "$hosts" },
]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "$queue_policy"
""")

ENTRYPOINT = Template("""\
#!/bin/bash
# Starts the broker of this node. The arguments are the command to train with; the first node runs it, the others serve.
set -u

mainHost="$main_host"
flags="$run_flags"
install=/mnt/flux/config
view=/mnt/flux/view

export PATH="$${PATH}:$${view}/bin"
mkdir -p /opt/software
cp -R /mnt/flux/software/* /opt/software/

# The view's Python packages, for the interpreter that the view itself was made with.
library=$$(echo "$${view}"/lib/python3*)
export PYTHONPATH="$${PYTHONPATH:-}:$${library}/site-packages"
interpreter=$$(find -L /opt/software -path "*/bin/$$(basename "$${library}")" -type f 2>/dev/null | head -n 1)
if [ -n "$${interpreter}" ]; then
  ln -sf "$${interpreter}" "$${view}/bin/python3"
  ln -sf "$${interpreter}" "$${view}/bin/python"
fi

export FLUX_RC_EXTRA="$${view}/etc/flux/rc1.d"

cat <<'LOAD' > /mnt/flux/load-fluxion.sh
#!/bin/bash
flux module remove sched-simple
flux module load sched-fluxion-resource
flux module load sched-fluxion-qmanager
LOAD

# For people who enter the pod: the environment in which flux commands reach this instance.
cat <<VIEW > /mnt/flux/flux-view.sh
#!/bin/bash
export PATH="$${PATH}"
export PYTHONPATH="$${PYTHONPATH}"
export LD_LIBRARY_PATH="$${LD_LIBRARY_PATH:-}:$${view}/lib"
export fluxsocket="local://$${install}/run/flux/local"
VIEW

command="$$*"

mkdir -p "$${install}/etc/curve"
cp /curve/curve.cert "$${install}/etc/curve/curve.cert"
chmod go-r "$${install}/etc/curve/curve.cert"
chown "$$(id -u)" "$${install}/etc/curve/curve.cert"

flux R encode --hosts="$$(cat "$${install}/etc/flux/system/hostlist")" $resource_flags > "$${install}/etc/flux/system/R"

state="$${install}/var/lib/flux"
mkdir -p "$${state}" /tmp/fluxout
options="-Scron.directory=$${install}/etc/flux/system/cron.d -Stbon.fanout=256 -Srundir=$${install}/run/flux"
options="$${options} -Sstatedir=$${state} -Slocal-uri=local://$${install}/run/flux/local"
options="$${options} -Slog-stderr-level=0 -Slog-stderr-mode=local"

# Options and command are words of their own from here on: both come as one line.
code=0
if [ "$$(hostname)" = "$${mainHost}" ]; then
  if [ -z "$${command}" ]; then
    flux broker --config-path "$${install}/etc/flux/config" $${options} || code=$$?
  else
    flux start -o --config "$${install}/etc/flux/config" $${options} flux run $${flags} $${command} || code=$$?
  fi
else
  # The first node may not be there yet.
  until flux start -o --config "$${install}/etc/flux/config" $${options}; do
    sleep 15
  done
fi

touch /mnt/flux/flux-operator-complete.txt
# A training that failed must not look complete.
exit "$${code}"
""")
