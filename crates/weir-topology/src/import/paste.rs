//! Text that was copied from a terminal: prompts, commands, and what pagers leave behind.

use std::borrow::Cow;

/// What pagers write where a screen ends, of IOS, FRR's `less`, ASA, NX-OS and JunOS.
const PAGERS: [&str; 6] =
    ["--More--", "<--- More --->", "---(more)---", "--- more ---", "-- more --", "(END)"];

/// A line as it stood on the terminal, without what a pager wrote in front of it.
pub(super) fn on_screen(line: &str) -> Cow<'_, str> {
    let line =
        if line.contains(['\u{8}', '\r', '\u{1b}']) { Cow::Owned(drawn(line)) } else { Cow::Borrowed(line) };
    let text = line.trim_start();
    match PAGERS.iter().find_map(|pager| text.strip_prefix(pager)) {
        // What follows a pager's words on their line was written over them, or behind them.
        Some(rest) => Cow::Owned(rest.to_string()),
        None => line,
    }
}

/// What is left of characters that were written over each other.
fn drawn(line: &str) -> String {
    let mut row: Vec<char> = Vec::new();
    let mut at: usize = 0;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{8}' => at = at.saturating_sub(1),
            '\r' => at = 0,
            '\u{1b}' => {
                // A control sequence (ECMA-48, 5.4): "[", parameters, and a letter that ends it.
                if chars.next_if_eq(&'[').is_some() {
                    while chars.next_if(|c| !('@'..='~').contains(c)).is_some() {}
                    chars.next();
                }
            }
            c => {
                match row.get_mut(at) {
                    Some(old) => *old = c,
                    None => row.push(c),
                }
                at += 1;
            }
        }
    }
    row.into_iter().collect()
}

/// Whether a line is a prompt, with or without a command behind it, or a command that asks for a routing table.
pub(super) fn is_prompt(text: &str) -> bool {
    let commands = ["show ", "sh ", "ip route", "ip -", "ip r "];
    if commands.iter().any(|c| text.starts_with(c))
        || text.contains("show ip route")
        || text.contains("show ipv6 route")
    {
        return true;
    }
    // `R1#`, `fw/pri/act> show route`, `router(config)#`, `admin@sonic:~$ `, `[root@r1 ~]# ip route`.
    let Some(end) = text.find(['#', '>', '$', '%']) else { return false };
    let (prompt, command) = text.split_at(end);
    let command = command.get(1..).unwrap_or_default().trim_start();
    let named = prompt.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    let spaces =
        if prompt.starts_with('[') { prompt.matches(' ').count() <= 1 } else { !prompt.contains(' ') };
    let is_word = |w: &str| w.len() >= 2 && w.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    named && spaces && (command.is_empty() || command.split_whitespace().next().is_some_and(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pager_wrote_is_taken_away() {
        for (line, text) in [
            (" --More-- ", " "),
            ("--More--S 10.0.0.0/8", "S 10.0.0.0/8"),
            (
                " --More-- \u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}          \u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}\u{8}C 10.1.0.0/16",
                "C 10.1.0.0/16",
            ),
            ("<--- More --->\r              \rO    10.2.0.0 255.255.0.0", "O    10.2.0.0 255.255.0.0"),
            ("\u{1b}[7m--More--\u{1b}[0m", ""),
            ("   via 10.0.0.1", "   via 10.0.0.1"),
        ] {
            assert_eq!(on_screen(line), text, "{line:?}");
        }
    }

    #[test]
    fn prompts_are_told_from_routes() {
        for prompt in [
            "R1#",
            "R1>",
            "R1# exit",
            "fw/pri/act> show route",
            "router(config)#do sh ip ro",
            "admin@sonic:~$",
            "[root@r1 ~]# ip route",
            "gw# show ip route vrf blue",
            "sh ip route",
        ] {
            assert!(is_prompt(prompt), "{prompt}");
        }
        for route in [
            "S>  10.0.0.0/8 [1/0] via 10.0.0.1 inactive",
            "C>*10.11.0.0/24 is directly connected, Ethernet0",
            "B>r 10.0.0.0/8 [20/0] via 10.0.0.1, eth0",
            "S   % 10.0.0.0/8 [1/0] via 10.0.0.1",
            "O*> 10.0.0.0/8",
            "default via 10.0.0.1 dev eth0",
        ] {
            assert!(!is_prompt(route), "{route}");
        }
    }
}
