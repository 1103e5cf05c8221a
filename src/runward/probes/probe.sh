# One look at a box: POSIX sh, nothing written, nothing of the caller evaluated. Read by `sh -s` from stdin, after a
# line `set -- key=value ...`; so no argument of any process here holds a pattern, and no look can find itself.
# Answers key=value lines between two marker lines. What cannot be had is left out, or said as key.why=reason.

say() { printf '%s=%s\n' "$1" "$(printf '%s' "$2" | tr '\n\r\t' '   ' | cut -c1-500)"; }
have() { command -v "$1" >/dev/null 2>&1; }
# At most 5 seconds for a thing that can hang (a dead mount, a driver).
t() { if have timeout; then timeout -k 1 "${limit:-5}" "$@"; else "$@"; fi; }
# Runward of the PATH, else the one that was set up here.
ours() {
  if have runward; then printf 'runward'; return; fi
  r=$HOME/.local/share/runward/current/bin/runward
  [ -x "$r" ] && printf '%s' "$r"
}
home() { case $1 in '~/'*) printf '%s' "$HOME/${1#??}" ;; *) printf '%s' "$1" ;; esac }

box() {
  say host "$(uname -n)"
  say now "$(date +%s)"
  [ -r /proc/sys/kernel/random/boot_id ] && say boot_id "$(cat /proc/sys/kernel/random/boot_id)"
  [ -r /proc/uptime ] && { read -r up _ </proc/uptime; say uptime "$up"; }
  [ -r /proc/loadavg ] && { read -r load _ </proc/loadavg; say load "$load"; }
  have nproc && say cpus "$(nproc)"
  [ -r /sys/fs/cgroup/cpu.max ] && say cpu.max "$(cat /sys/fs/cgroup/cpu.max)"
  have python3 && say python3 1
  [ -n "$(ours)" ] && say runward 1
  have rsync && say rsync 1
  return 0
}

list() {
  if have ps && ps -eo pid=,ppid=,stat=,args= >/dev/null 2>&1; then
    ps -eo pid=,ppid=,stat=,args=
    return
  fi
  for d in /proc/[0-9]*; do
    [ -r "$d/stat" ] || continue
    args=$(tr '\0' ' ' <"$d/cmdline" 2>/dev/null) || continue
    [ -n "$args" ] || continue
    rest=$(sed 's/.*) //' <"$d/stat" 2>/dev/null) || continue
    # shellcheck disable=SC2086
    set -- $rest
    printf '%s %s %s %s\n' "${d#/proc/}" "$2" "$1" "$args"
  done
}

# Processes whose command line matches, without this look, its ancestors and children, and the dead.
processes() {
  [ -d /proc/self ] || { say proc.why "no /proc"; return; }
  found=$(list | RW_MATCH=$1 RW_SELF=$$ awk '
    { pid = $1; up[pid] = $2; state[pid] = $3; $1 = $2 = $3 = ""; sub(/^ +/, ""); args[pid] = $0 }
    END {
      for (p = ENVIRON["RW_SELF"]; p > 1 && n++ < 50; p = up[p]) mine[p] = 1
      for (p in args) {
        if (state[p] ~ /^[ZX]/ || p in mine || up[p] == ENVIRON["RW_SELF"] || args[p] !~ ENVIRON["RW_MATCH"]) continue
        print p, substr(args[p], 1, 200)
      }
    }' 2>/dev/null) || { say proc.why "the pattern cannot be used, or no awk"; return; }
  if [ -z "$found" ]; then say proc 0; return; fi
  say proc "$(printf '%s\n' "$found" | wc -l | tr -d ' ')"
  i=0
  printf '%s\n' "$found" | sort -n | head -n 3 | while IFS= read -r line; do
    say "proc.$i" "$line"
    i=$((i + 1))
  done
  first=$(printf '%s\n' "$found" | sort -n | head -n 1)
  first=${first%% *}
  [ -r "/proc/$first/status" ] && say threads "$(sed -n 's/^Threads:[^0-9]*//p' "/proc/$first/status")"
}

sessions() {
  if have tmux; then
    names=$(t tmux list-sessions -F '#{session_name}' 2>/dev/null)
    if [ -z "$names" ]; then say tmux 0; else
      say tmux "$(printf '%s\n' "$names" | wc -l | tr -d ' ')"
      printf '%s\n' "$names" | head -n 20 | while IFS= read -r name; do say tmux.name "$name"; done
    fi
  fi
  if have squeue; then
    if jobs=$(t squeue -h -u "$(id -un)" -o '%i %T %j' 2>/dev/null); then
      if [ -z "$jobs" ]; then say squeue 0; else
        say squeue "$(printf '%s\n' "$jobs" | wc -l | tr -d ' ')"
        printf '%s\n' "$jobs" | head -n 5 | while IFS= read -r line; do say squeue.job "$line"; done
      fi
    else say squeue.why "squeue failed"; fi
  fi
}

gpu_once() {
  t nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total,temperature.gpu \
    --format=csv,noheader,nounits 2>/dev/null
}

# A GPU at 0 % is looked at three times, a second apart: one snapshot says nothing.
gpus() {
  have nvidia-smi || return 0
  rounds=1
  while :; do
    if ! rows=$(gpu_once); then say gpu.why "nvidia-smi failed or did not answer in 5 s"; return; fi
    printf '%s\n' "$rows" | while IFS= read -r row; do [ -n "$row" ] && say gpu "$row"; done
    case $rows in *", 0, "*) ;; *) return ;; esac
    [ "$rounds" -ge 3 ] && return
    rounds=$((rounds + 1))
    sleep 1
  done
}

memory() {
  dir=/sys/fs/cgroup
  own=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null)
  [ -r "$dir/memory.current" ] || dir=$dir$own
  if [ -r "$dir/memory.current" ]; then
    say mem.current "$(cat "$dir/memory.current")"
    say mem.max "$(cat "$dir/memory.max" 2>/dev/null)"
    say oom_kill "$(sed -n 's/^oom_kill //p' "$dir/memory.events" 2>/dev/null)"
  elif [ -r /sys/fs/cgroup/memory/memory.usage_in_bytes ]; then
    dir=/sys/fs/cgroup/memory
    say mem.current "$(cat "$dir/memory.usage_in_bytes")"
    say mem.max "$(cat "$dir/memory.limit_in_bytes")"
    say oom_kill "$(sed -n 's/^oom_kill //p' "$dir/memory.oom_control")"
  else
    say mem.why "no memory cgroup can be read"
  fi
  [ -r /proc/meminfo ] && say meminfo "$(sed -n 's/^\(MemTotal\|MemAvailable\): *//p' /proc/meminfo)"
  return 0
}

disk() {
  if [ ! -e "$2" ]; then say "mount.$1.why" "not there"; return; fi
  if row=$(t df -Pk -- "$2" 2>/dev/null); then say "mount.$1.bytes" "$(printf '%s\n' "$row" | tail -n 1)"
  else say "mount.$1.why" "df failed or did not answer in 5 s"; fi
  row=$(t df -Pi -- "$2" 2>/dev/null) && say "mount.$1.inodes" "$(printf '%s\n' "$row" | tail -n 1)"
  return 0
}

facts_of() { stat -L -c '%s %Y %i' -- "$1" 2>/dev/null || ls -lin -- "$1" 2>/dev/null | awk '{ print $6, 0, $1 }'; }

STEP='[Ee]poch[ =:/]*[0-9]|([Ii]teration|[Gg]lobal[_ ]?[Ss]tep|[Ss]tep)[ =:/]*[0-9]|[0-9]+/[0-9]+ \[|Training completed|Early stopping|FINISHED|QUEUE DONE'
CRASH='^(\[[^]]*\]:? ?)*(Traceback \(most recent call last\)|([A-Za-z_]+\.)*[A-Za-z_]*(Error|Exception)(:|$)|[A-Za-z_.]*OutOfMemory|Killed *$|Segmentation fault|Bus error)|CUDA out of memory|: line [0-9]+: +[0-9]+ (Killed|Segmentation fault)'

log() {
  if [ ! -e "$2" ]; then say "log.$1.why" "not there"; return; fi
  if [ ! -f "$2" ] || [ ! -r "$2" ]; then say "log.$1.why" "cannot be read"; return; fi
  say "log.$1.stat" "$(facts_of "$2")"
  tail -c 1048576 -- "$2" | tr '\r' '\n' | tr -d '\000' | RW_STEP=$STEP RW_CRASH=$CRASH RW_N=$1 awk '
    function cut(s) { gsub(/[[:cntrl:]]/, " ", s); return substr(s, 1, 400) }
    function out(key, value) { printf "log.%s.%s=%s\n", ENVIRON["RW_N"], key, value }
    $0 ~ ENVIRON["RW_STEP"] { last[steps++ % 6] = cut($0); step_at = NR }
    /[Ee]poch[ =:\/]*[0-9]/ { epoch = cut($0) }
    $0 ~ ENVIRON["RW_CRASH"] { crashes++; crash_at = NR; crash = cut($0); if ($0 ~ /Traceback/) trace_at = NR }
    /basic_ios::clear: iostream error|unexpected pos [0-9]+ vs [0-9]+|No space left on device/ { full++; full_at = NR }
    /QUEUE DONE|Training completed/ { done = cut($0); done_at = NR }
    { if ($0 != "") text = cut($0) }
    END {
      out("lines", NR); out("last", text); out("crashes", crashes + 0)
      for (i = (steps > 6 ? steps - 6 : 0); i < steps; i++) out("step", last[i % 6])
      if (epoch != "") out("epoch", epoch)
      if (steps) out("step_at", step_at)
      if (crashes) { out("crash_at", crash_at); out("crash", crash) }
      if (full) out("full_at", full_at)
      if (done_at) { out("done_at", done_at); out("done", done) }
    }' 2>/dev/null || say "log.$1.why" "no awk"
}

checkpoints() {
  if [ ! -d "$2" ]; then say "ckpt.$1.why" "not there"; return; fi
  names=$(t ls -1t -- "$2" 2>/dev/null) || { say "ckpt.$1.why" "cannot be listed"; return; }
  # The newest change of the directory and of its newest entries: a checkpoint that is being written shows there.
  newest=$(t find "$2" -maxdepth 2 -type f -mmin -1440 -exec stat -L -c '%Y' -- {} + 2>/dev/null | sort -n | tail -n 1)
  [ -n "$newest" ] || newest=$(stat -L -c '%Y' -- "$2" 2>/dev/null)
  say "ckpt.$1.newest" "$newest"
  [ -n "$names" ] && printf '%s\n' "$names" | head -n 5 | while IFS= read -r name; do say "ckpt.$1.name" "$name"; done
  for pointer in latest latest_checkpointed_iteration.txt; do
    [ -f "$2/$pointer" ] && say "ckpt.$1.latest" "$(head -c 200 -- "$2/$pointer")"
  done
  return 0
}

marker() {
  if [ -e "$2" ]; then say "marker.$1" "1"
  elif [ -d "$(dirname -- "$2")" ]; then say "marker.$1" "0"
  else say "marker.$1.why" "its directory is not there"; fi
}

result() {
  if [ ! -e "$2" ]; then say "result.$1" 0; return; fi
  if [ -d "$2" ]; then
    n=0
    for file in "$2"/*.json; do [ -f "$file" ] && n=$((n + 1)); done
    say "result.$1.count" "$n"
    return
  fi
  if [ ! -f "$2" ] || [ ! -r "$2" ]; then say "result.$1.why" "cannot be read"; return; fi
  say "result.$1" 1
  head -c 16384 -- "$2" | head -n 50 | tr -d '\000\r' | awk -v n="$1" '{ printf "result.%s.line=%s\n", n, substr($0, 1, 400) }'
}

count() {
  if [ ! -d "$2" ]; then say "count.$1.why" "not there"; return; fi
  n=$(t find "$2" -type f -exec sh -c 'for f do printf x; done' sh {} + 2>/dev/null | wc -c | tr -d ' ')
  say "count.$1" "$n"
}

exists() { if [ -e "$2" ]; then say "exists.$1" 1; else say "exists.$1" 0; fi; }

runs() {
  own=$(ours) || return 0
  # On a box whose processors are all busy with training a Python takes its time.
  rows=$(limit=15; t "$own" ps --json 2>/dev/null) || { say runs.why "runward ps failed there"; return; }
  printf 'runs=%s\n' "$(printf '%s' "$rows" | tr -d '\n' | head -c 60000)"
}

# The newest pages of runs and chains of the Runward here: kept by the caller for the day this box does not answer.
handbooks() {
  top=${RUNWARD_STATE_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/runward}
  [ -d "$top" ] || return 0
  ls -1t -- "$top"/runs/*/handbook.md "$top"/handbooks/chains/*.md 2>/dev/null | head -n 5 | while IFS= read -r page; do
    case $page in */handbook.md) name=${page%/handbook.md} ;; *) name=chain-${page##*/}; name=${name%.md} ;; esac
    head -c 16384 -- "$page" | tr -d '\000\r' | RW_N=${name##*/} awk '
      { printf "handbook=%s\t%s\n", ENVIRON["RW_N"], substr($0, 1, 1000) }' 2>/dev/null
  done
}

main() {
  printf '== runward probe 1 begins ==\n'
  box
  i=0
  for word in "$@"; do
    value=$(home "${word#*=}"; printf .)
    value=${value%.}
    case $word in
      match=*) processes "$value" ;;
      sessions=*) sessions ;;
      gpus=*) gpus ;;
      memory=*) memory ;;
      runs=*) runs; handbooks ;;
      mount=*) disk "$i" "$value" ;;
      log=*) log "$i" "$value" ;;
      ckpt=*) checkpoints "$i" "$value" ;;
      marker=*) marker "$i" "$value" ;;
      result=*) result "$i" "$value" ;;
      count=*) count "$i" "$value" ;;
      exists=*) exists "$i" "$value" ;;
    esac
    i=$((i + 1))
  done
  printf '== runward probe 1 ends ==\n'
}

LC_ALL=C
export LC_ALL
main "$@" </dev/null
