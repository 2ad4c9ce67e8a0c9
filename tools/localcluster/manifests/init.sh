# The init process of a node: $1 is the folder for its files, the other arguments are folders to mount over.

# This reads the machine's /proc, so the PID is the machine's.
read -r pid rest </proc/self/stat
folder=$1; shift
mount -t proc proc /proc
mount --make-rshared /
for target; do
  mkdir -p "$target" "$folder$target"
  mount --bind "$folder$target" "$target"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
# Without it, packets between the ports of a bridge bypass kube-proxy's rules.
if [ -e /proc/sys/net/bridge ]; then echo 1 >/proc/sys/net/bridge/bridge-nf-call-iptables; fi
echo "$pid" >"$folder/init.new"
mv "$folder/init.new" "$folder/init"
exec catatonit -P
