# Completion of kazahana's command line for bash. Written by scripts/completions: change it there.

_kazahana_values()
{
    case $1 in
    'leases --from') echo 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss://' ;;
    'reserve --from') echo 'sqlite: postgres:// postgresql://' ;;
    'next --format') echo 'dec hex base32 base62 base64url external json' ;;
    *' --from') echo 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss:// memory: static: env: standalone:' ;;
    *' --store') echo 'sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// memory:' ;;
    *' --ids-from') echo 'static: env: sqlite: redis:// rediss:// redis+sentinel:// rediss+sentinel:// postgres:// postgresql:// http:// https:// http+unix:/// tsid+redis:// tsid+rediss://' ;;
    *' --listen') echo '127.0.0.1:7070 0.0.0.0:7070 [::1]:7070 unix:' ;;
    *' --profile') echo 'snowflake tsid dev staging prod' ;;
    *' --log-level') echo 'error warning info debug' ;;
    *' --ui') echo 'on off' ;;
    *' --log-format') echo 'logfmt json' ;;
    *' --layout') echo 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53' ;;
    *' --format') echo 'dec hex base32 base62 base64url external uuid' ;;
    *' --throughput') echo '256: 256:4096' ;;
    *' --backward') echo 'fail wait: logical' ;;
    *' --fallback') echo 'never fenced any' ;;
    *' --seq-start') echo 'zero random' ;;
    *' --clock') echo 'precise coarse' ;;
    *' --since') echo 'now -1h -1d -7d' ;;
    *' --until') echo 'now -1h -1d -7d' ;;
    *) return 1 ;;
    esac
}

_kazahana_options()
{
    case $1 in
    next)
        echo '--count --from --service --layout --format --key-file --backward --fallback --throughput --timeout --rate --seq-start --clock'
        ;;
    decode)
        echo '--layout --format --key-file --json'
        ;;
    external)
        echo '--key-file --type'
        ;;
    internal)
        echo '--key-file --type --layout'
        ;;
    range)
        echo '--since --until --layout --json'
        ;;
    layout)
        echo '--above --json'
        ;;
    mono)
        echo '--count --last'
        ;;
    uuid)
        echo '--count --node --last'
        ;;
    leases)
        echo '--from --service --json --watch'
        ;;
    reserve)
        echo '--until --note --from --service --list --free'
        ;;
    doctor)
        echo '--from --service --layout --json'
        ;;
    bench)
        echo '--layout --quick --json'
        ;;
    serve)
        echo '--listen --store --ids-from --layout --service --throughput --backward --fallback --token-file --tls-cert --tls-key --config --profile --check-config --loops --connections --request-timeout --idle-timeout --no-create-services --server-name --max-services --ui --handshakes --access-log --key-file --log-level --log-format'
        ;;
    esac
}

_kazahana()
{
    local commands='next decode external internal range layout mono uuid leases reserve doctor bench serve help'
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} values
    COMPREPLY=()
    # Bash splits words at = and :, which stand inside URLs and wait:MS.
    if declare -F _get_comp_words_by_ref >/dev/null; then
        local words cword
        _get_comp_words_by_ref -n =: cword words
        word=${words[cword]} before=${words[cword - 1]} command=${words[1]}
    else
        local cword=$COMP_CWORD
    fi

    if ((cword == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
    elif [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${commands% help}" -- "$word")
    elif [[ ' --key-file --token-file --tls-cert --tls-key --config ' == *" $before "* ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        compopt -o filenames 2>/dev/null
    elif values=$(_kazahana_values "$command $before"); then
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
        [[ ${COMPREPLY[0]-} == *[:/] ]] && compopt -o nospace 2>/dev/null
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_kazahana_options "$command") --help --version" -- "$word")
    elif [[ $command == layout ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'kazahana snowflake tsid twitter discord instagram mastodon sonyflake js53' -- "$word")
    fi
    declare -F __ltrim_colon_completions >/dev/null && __ltrim_colon_completions "$word"
    return 0
}

complete -F _kazahana kazahana
