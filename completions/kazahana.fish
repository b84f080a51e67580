# Completion of kazahana's command line for fish. Written by scripts/completions: change it there.

complete -c kazahana -f
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1' -l version -d 'the version'
complete -c kazahana -l help -d 'what it does, with examples'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a next -d 'mint IDs and print them'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a decode -d 'say what an ID contains'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a external -d 'turn IDs into texts that hide order and time'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a internal -d 'turn such texts back into IDs'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a range -d 'the smallest and largest ID of a span of time'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a layout -d 'capacity, lifetime and overflow date of a layout'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a mono -d 'strictly increasing nanoseconds'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a uuid -d 'UUIDs with a node and a nanosecond'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a leases -d 'who holds which node, until when'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a reserve -d 'keep nodes of a lease table for somebody else'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a doctor -d 'check the clock, the source and the layout'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a bench -d 'measure this machine'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1; or contains help (commandline -opc)[2]' -a serve -d 'the server: leases and IDs over HTTP'
complete -c kazahana -n 'test (count (commandline -opc)) -eq 1' -a help -d 'say more about a command'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l count -x
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l from -x -a 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss:// memory: static: env: standalone:'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l service -x
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l format -x -a 'dec hex base32 base62 base64url external json'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l key-file -r -F
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l backward -x -a 'fail wait: logical'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l fallback -x -a 'never fenced any'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l throughput -x -a '256: 256:4096'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l timeout -x
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l rate -x
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l seq-start -x -a 'zero random'
complete -c kazahana -n 'contains next (commandline -opc)[2]' -l clock -x -a 'precise coarse'
complete -c kazahana -n 'contains decode (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains decode (commandline -opc)[2]' -l format -x -a 'dec hex base32 base62 base64url external uuid'
complete -c kazahana -n 'contains decode (commandline -opc)[2]' -l key-file -r -F
complete -c kazahana -n 'contains decode (commandline -opc)[2]' -l json
complete -c kazahana -n 'contains external (commandline -opc)[2]' -l key-file -r -F
complete -c kazahana -n 'contains external (commandline -opc)[2]' -l type -x
complete -c kazahana -n 'contains internal (commandline -opc)[2]' -l key-file -r -F
complete -c kazahana -n 'contains internal (commandline -opc)[2]' -l type -x
complete -c kazahana -n 'contains internal (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains range (commandline -opc)[2]' -l since -x -a 'now -1h -1d -7d'
complete -c kazahana -n 'contains range (commandline -opc)[2]' -l until -x -a 'now -1h -1d -7d'
complete -c kazahana -n 'contains range (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains range (commandline -opc)[2]' -l json
complete -c kazahana -n 'contains layout (commandline -opc)[2]' -l above -x
complete -c kazahana -n 'contains layout (commandline -opc)[2]' -l json
complete -c kazahana -n 'contains mono (commandline -opc)[2]' -l count -x
complete -c kazahana -n 'contains mono (commandline -opc)[2]' -l last -x
complete -c kazahana -n 'contains uuid (commandline -opc)[2]' -l count -x
complete -c kazahana -n 'contains uuid (commandline -opc)[2]' -l node -x
complete -c kazahana -n 'contains uuid (commandline -opc)[2]' -l last -x
complete -c kazahana -n 'contains leases (commandline -opc)[2]' -l from -x -a 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss://'
complete -c kazahana -n 'contains leases (commandline -opc)[2]' -l service -x
complete -c kazahana -n 'contains leases (commandline -opc)[2]' -l json
complete -c kazahana -n 'contains leases (commandline -opc)[2]' -l watch
complete -c kazahana -n 'contains reserve (commandline -opc)[2]' -l until -x -a 'now -1h -1d -7d'
complete -c kazahana -n 'contains reserve (commandline -opc)[2]' -l note -x
complete -c kazahana -n 'contains reserve (commandline -opc)[2]' -l from -x -a 'sqlite: postgres:// postgresql://'
complete -c kazahana -n 'contains reserve (commandline -opc)[2]' -l service -x
complete -c kazahana -n 'contains reserve (commandline -opc)[2]' -l list
complete -c kazahana -n 'contains reserve (commandline -opc)[2]' -l free -x
complete -c kazahana -n 'contains doctor (commandline -opc)[2]' -l from -x -a 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss:// memory: static: env: standalone:'
complete -c kazahana -n 'contains doctor (commandline -opc)[2]' -l service -x
complete -c kazahana -n 'contains doctor (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains doctor (commandline -opc)[2]' -l json
complete -c kazahana -n 'contains bench (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains bench (commandline -opc)[2]' -l quick
complete -c kazahana -n 'contains bench (commandline -opc)[2]' -l json
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l listen -x -a '127.0.0.1:7070 0.0.0.0:7070 [::1]:7070 unix:'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l store -x -a 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// memory:'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l ids-from -x -a 'static: env: sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss://'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l layout -x -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l service -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l throughput -x -a '256: 256:4096'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l backward -x -a 'fail wait: logical'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l fallback -x -a 'never fenced any'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l token-file -r -F
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l tls-cert -r -F
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l tls-key -r -F
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l config -r -F
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l profile -x -a 'snowflake tsid dev staging prod'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l check-config
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l loops -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l connections -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l request-timeout -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l idle-timeout -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l no-create-services
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l server-name -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l max-services -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l ui -x -a 'on off'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l handshakes -x
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l access-log
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l key-file -r -F
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l log-level -x -a 'error warning info debug'
complete -c kazahana -n 'contains serve (commandline -opc)[2]' -l log-format -x -a 'logfmt json'
complete -c kazahana -n 'contains layout (commandline -opc)[2]' -a 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53'
