//! What a kubectl command line does to a cluster, as far as its words tell. Pure.

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It reads, and ends by itself: it may be tried again.
    Reads,
    /// It reads for as long as it is let.
    Follows,
    /// It may change something.
    Changes,
}

/// Global flags of kubectl that take their value as the next word.
const WITH_VALUE: &[&str] = &[
    "-n",
    "--namespace",
    "--context",
    "--cluster",
    "--user",
    "--kubeconfig",
    "-s",
    "--server",
    "--token",
    "--as",
    "--as-group",
    "--as-uid",
    "--as-user-extra",
    "--certificate-authority",
    "--client-certificate",
    "--client-key",
    "--tls-server-name",
    "--request-timeout",
    "--cache-dir",
    "-v",
    "--v",
    "--vmodule",
    "--password",
    "--username",
    "--profile",
    "--profile-output",
    "--log-flush-frequency",
    "--kuberc",
];

/// Verbs that only read.
const READING: &[&str] = &[
    "api-resources",
    "api-versions",
    "cluster-info",
    "completion",
    "describe",
    "diff",
    "events",
    "explain",
    "get",
    "help",
    "kustomize",
    "logs",
    "options",
    "plugin",
    "top",
    "version",
    "wait",
];

/// Verbs of which some second words only read.
const READING_PARTLY: &[(&str, &[&str])] = &[
    ("apply", &["view-last-applied"]),
    ("auth", &["can-i", "whoami"]),
    ("config", &["view", "get-contexts", "get-clusters", "get-users", "current-context"]),
    ("rollout", &["history", "status"]),
];

/// The effect of `kubectl ARGS`. What is not known to read may change something.
pub fn of_kubectl(args: &[String]) -> Effect {
    let mut words = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--" => break,
            flag if WITH_VALUE.contains(&flag) => {
                rest.next();
            }
            flag if flag.starts_with('-') && flag.len() > 1 => {}
            word => words.push(word),
        }
    }
    let verb = words.first().copied().unwrap_or("help");
    let second = words.get(1).copied().unwrap_or_default();
    let partly = READING_PARTLY.iter().any(|(known, reading)| *known == verb && reading.contains(&second));
    let reads = READING.contains(&verb) || partly || is_dry(args);
    match (reads, verb) {
        (false, "port-forward" | "proxy") => Effect::Follows,
        (false, _) => Effect::Changes,
        (true, _) if follows(args, verb) => Effect::Follows,
        (true, _) => Effect::Reads,
    }
}

fn is_dry(args: &[String]) -> bool {
    args.iter().any(|arg| matches!(arg.as_str(), "--dry-run=client" | "--dry-run=server"))
        || args
            .windows(2)
            .any(|pair| pair[0] == "--dry-run" && matches!(pair[1].as_str(), "client" | "server"))
}

fn follows(args: &[String], verb: &str) -> bool {
    args.iter().any(|arg| match arg.as_str() {
        "--watch" | "-w" | "--watch-only" | "--watch=true" => verb != "logs",
        "--follow" | "-f" | "--follow=true" => verb == "logs",
        _ => false,
    })
}

/// Whether what kubectl said of a failure is likely to be gone when it is tried again.
pub fn may_pass(stderr: &str) -> bool {
    // The first kubectl after a token was replaced is refused once.
    const PASSING: &[&str] = &[
        "connection refused",
        "connection reset",
        "TLS handshake timeout",
        "i/o timeout",
        "EOF",
        "the server is currently unable to handle the request",
        "Too Many Requests",
        "too many requests",
        "etcdserver: request timed out",
        "You must be logged in to the server",
    ];
    PASSING.iter().any(|sign| stderr.contains(sign))
}

/// Whether a cluster, or something before it, is asked too much at once.
pub fn is_too_much(stderr: &str) -> bool {
    stderr.contains("Too Many Requests") || stderr.contains("too many requests")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_read_may_change_something() {
        let effect = |line: &str| of_kubectl(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "get pods",
            "-n delete get pods",
            "--context x -v 6 get ns",
            "get --raw /version",
            "describe node x",
            "rollout status deploy/x",
            "auth can-i delete pods",
            "delete pod x --dry-run=server",
            "apply -f x --dry-run client",
            "version",
            "",
            "logs x",
            "diff -f x",
            "apply view-last-applied x",
        ] {
            assert_eq!(effect(line), Effect::Reads, "{line}");
        }
        for line in [
            "delete pod x",
            "-n get delete pod x",
            "apply -f get",
            "rollout restart deploy/x",
            "exec x -- get pods",
            "edit cm x",
            "neat get pods",
            "auth reconcile -f x",
            "config use-context x",
            "scale deploy x",
            "apply -f x --dry-run=none",
            "cp a b",
            "--namespace=get create ns x",
            "drain get",
        ] {
            assert_eq!(effect(line), Effect::Changes, "{line}");
        }
        for line in ["get pods -w", "logs -f x", "port-forward x 80", "get pods --watch"] {
            assert_eq!(effect(line), Effect::Follows, "{line}");
        }
        assert_eq!(effect("get -f x.yaml"), Effect::Reads);
    }
}
