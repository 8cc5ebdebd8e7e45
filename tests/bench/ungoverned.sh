#!/bin/sh
# The main job without a harness: clone the branch, run the codemod in a container with the limits a sandbox has, commit, push.
# usage: ungoverned.sh <image> <url> <branch> <user> <password file>; DOCKER_HOST names the engine.
set -eu
image=$1 url=$2 branch=$3 user=$4 password=$5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
helper="!f() { echo username=$user; echo \"password=\$(cat $password)\"; }; f"
git -c credential.helper="$helper" clone --quiet --depth 1 --single-branch --branch "$branch" "$url" "$dir/work"
chown -R 1000:1000 "$dir/work"
docker run --rm --network none --read-only --user 1000:1000 --cap-drop ALL --security-opt no-new-privileges --ipc none \
	--log-driver none --memory 512m --memory-swap 512m --cpus 1 --pids-limit 128 \
	--ulimit fsize=67108864 --ulimit nofile=1024 --ulimit core=0 \
	--tmpfs /home/agent:rw,nosuid,nodev,exec,size=16m,uid=1000,gid=1000,mode=0700 \
	--tmpfs /tmp:rw,nosuid,nodev,exec,size=64m,uid=1000,gid=1000,mode=0700 \
	--volume "$dir/work:/workspace" --workdir /workspace --entrypoint /usr/local/bin/gofumpt "$image" -l -w . >/dev/null
chown -R 0:0 "$dir/work"
git -C "$dir/work" -c user.name=Harness -c user.email=harness@localhost commit --quiet --all --message 'Format with gofumpt'
git -C "$dir/work" -c credential.helper="$helper" push --quiet origin "HEAD:refs/heads/$branch"
