//! From arguments to instructions.

use weir_click::first_word;

use super::functions::integer;

/// The kind of a script: what it runs for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// It runs by itself.
    Active,
    /// For its handler `run`.
    Passive,
    /// For every packet.
    Packet,
    /// For any handler of its own.
    Proxy,
    /// When an element asks for the end of the run.
    Driver,
    /// For these signals.
    Signal(Vec<i32>),
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Insn {
    /// Where scripts that run by themselves begin, unless they begin with a wait.
    Begin,
    /// Waits for so many steps.
    Pause(u32),
    /// Waits for a time, or a step.
    Wait(String),
    /// Prints text, or what a handler says, to a file or else to standard output.
    Print { text: String, unquote: bool, newline: bool },
    /// Prints a handler's name and value to standard error.
    Read { call: String, unquote: bool },
    /// Calls a write handler.
    Write { call: String, unquote: bool },
    /// Sets a variable.
    Set { name: String, text: String, unquote: bool },
    /// Sets a variable once, at the start.
    Init { name: String, text: String, unquote: bool, export: bool },
    /// A place to go to.
    Label(String),
    /// Goes somewhere, if the condition is empty or true.
    Goto { target: Target, condition: String },
    /// Ends with a value.
    Return { text: String, unquote: bool },
    /// Ends.
    End,
    /// Ends for good.
    Exit,
    /// Ends and asks for the end of the run.
    Stop,
    /// Ends with a message.
    Error { text: String, unquote: bool },
}

/// The target of a `goto`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// To an instruction.
    At(usize),
    /// To where an instruction without text does the same.
    End,
    Exit,
    Stop,
    Error,
    /// Not found yet.
    Name(String),
}

/// The number of a signal, by number or name.
pub(super) fn signal(word: &str) -> Option<i32> {
    use signal_hook::consts::*;
    if let Some(number) = integer(word) {
        return i32::try_from(number).ok().filter(|n| (0..32).contains(n));
    }
    Some(match word {
        "ABRT" => SIGABRT,
        "ALRM" => SIGALRM,
        "HUP" => SIGHUP,
        "INT" => SIGINT,
        "IO" => SIGIO,
        "PIPE" => SIGPIPE,
        "QUIT" => SIGQUIT,
        "TERM" => SIGTERM,
        "TSTP" => SIGTSTP,
        "USR1" => SIGUSR1,
        "USR2" => SIGUSR2,
        _ => return None,
    })
}

/// The value of `TYPE`.
pub(super) fn kind(text: &str) -> Result<Kind, String> {
    let words = weir_click::split_words(text);
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    match names[..] {
        ["ACTIVE"] => Ok(Kind::Active),
        ["PASSIVE"] => Ok(Kind::Passive),
        ["PACKET" | "PUSH"] => Ok(Kind::Packet),
        ["PROXY"] => Ok(Kind::Proxy),
        ["DRIVER"] => Ok(Kind::Driver),
        ["SIGNAL", ref list @ ..] if !list.is_empty() => {
            let numbers: Option<Vec<i32>> = list.iter().map(|w| signal(w)).collect();
            numbers.map(Kind::Signal).ok_or_else(|| "bad signal number".to_owned())
        }
        _ => Err("bad TYPE; it is ACTIVE, PASSIVE, PACKET, PROXY, DRIVER or SIGNAL SIGNO...".to_owned()),
    }
}

/// Reads instructions, one an argument.
pub(super) fn instructions(args: &[String]) -> Result<Vec<Insn>, Vec<String>> {
    let mut errors = Vec::new();
    let mut list = Vec::new();
    for arg in args {
        let Some((word, rest)) = first_word(arg) else { continue };
        match instruction(word, rest.trim_end()) {
            Some(insn) => {
                if list.is_empty() && !matches!(insn, Insn::Pause(_) | Insn::Wait(_)) {
                    list.push(Insn::Begin);
                }
                list.push(insn);
            }
            None => errors.push(format!("syntax error at '{word}'")),
        }
    }
    let places: Vec<(String, usize)> = (list.iter().enumerate())
        .filter_map(|(i, insn)| match insn {
            Insn::Label(name) => Some((name.clone(), i)),
            _ => None,
        })
        .collect();
    for insn in &mut list {
        if let Insn::Goto { target, .. } = insn
            && let Target::Name(name) = target
        {
            match place(name, &places) {
                Some(found) => *target = found,
                None => errors.push(format!("no such label '{name}'")),
            }
        }
    }
    if errors.is_empty() { Ok(list) } else { Err(errors) }
}

/// Where a label is.
pub(super) fn place(name: &str, labels: &[(String, usize)]) -> Option<Target> {
    let found = labels.iter().find(|(label, _)| label == name).map(|(_, i)| Target::At(*i));
    found.or(match name {
        "end" => Some(Target::End),
        "exit" => Some(Target::Exit),
        "stop" => Some(Target::Stop),
        "error" | "errorq" => Some(Target::Error),
        "begin" | "loop" => Some(Target::At(0)),
        _ => None,
    })
}

fn instruction(word: &str, rest: &str) -> Option<Insn> {
    let text = rest.to_owned();
    let unquote = word.ends_with('q');
    let name_and_text = || first_word(rest).map(|(name, text)| (name.to_owned(), text.to_owned()));
    Some(match word {
        "print" | "printq" => Insn::Print { text, unquote, newline: true },
        "printn" | "printnq" => Insn::Print { text, unquote, newline: false },
        // What is saved comes first, and then the file.
        "save" | "append" => {
            let (what, file) = name_and_text()?;
            let file = if file.is_empty() { "-".to_owned() } else { file };
            let mark = if word == "save" { ">" } else { ">>" };
            Insn::Print { text: format!("{mark}{file} {what}"), unquote: false, newline: true }
        }
        "read" | "readq" => Insn::Read { call: text, unquote },
        "write" | "writeq" => Insn::Write { call: text, unquote },
        "set" | "setq" => {
            let (name, text) = name_and_text().filter(|(_, text)| !text.is_empty())?;
            Insn::Set { name, text, unquote }
        }
        "init" | "initq" | "export" | "exportq" => {
            let (name, text) = name_and_text()?;
            Insn::Init { name, text, unquote, export: word.starts_with("export") }
        }
        "return" | "returnq" => Insn::Return { text, unquote },
        "error" | "errorq" => Insn::Error { text, unquote },
        "wait" if !rest.is_empty() => Insn::Wait(text),
        "wait_for" | "wait_time" => Insn::Wait(text),
        "wait" | "pause" | "wait_step" | "wait_stop" => {
            let steps = if rest.is_empty() { Some(1) } else { integer(rest) };
            Insn::Pause(u32::try_from(steps?).ok()?)
        }
        "label" => match name_and_text()? {
            (name, rest) if rest.is_empty() => Insn::Label(name),
            _ => return None,
        },
        "goto" => {
            let (name, condition) = name_and_text()?;
            Insn::Goto { target: Target::Name(name), condition }
        }
        "loop" | "end" | "exit" | "stop" if !rest.is_empty() => return None,
        "loop" => Insn::Goto { target: Target::At(0), condition: String::new() },
        "end" => Insn::End,
        "exit" => Insn::Exit,
        "stop" => Insn::Stop,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: &str) -> Result<Vec<Insn>, Vec<String>> {
        instructions(&weir_click::split_args(config))
    }

    #[test]
    fn labels_are_found_before_and_behind() {
        let goto = |target| Insn::Goto { target, condition: String::new() };
        let list = read("goto b, label b, loop, goto exit").unwrap();
        assert_eq!(
            list,
            [
                Insn::Begin,
                goto(Target::At(2)),
                Insn::Label("b".into()),
                goto(Target::At(0)),
                goto(Target::Exit)
            ]
        );
    }

    #[test]
    fn waits_are_for_steps_or_time() {
        assert_eq!(read("wait").unwrap(), [Insn::Pause(1)]);
        assert_eq!(read("wait_stop 3").unwrap(), [Insn::Pause(3)]);
        assert_eq!(read("wait 1s").unwrap(), [Insn::Wait("1s".into())]);
    }

    #[test]
    fn all_errors_are_told() {
        assert_eq!(
            read("jump, set x, goto nowhere, label a b, stop it, pause x").unwrap_err(),
            [
                "syntax error at 'jump'",
                "syntax error at 'set'",
                "syntax error at 'label'",
                "syntax error at 'stop'",
                "syntax error at 'pause'",
                "no such label 'nowhere'"
            ]
        );
    }

    #[test]
    fn types_and_signals() {
        assert_eq!(kind("SIGNAL INT 12"), Ok(Kind::Signal(vec![2, 12])));
        assert_eq!(kind("PUSH"), Ok(Kind::Packet));
        assert_eq!(kind("SIGNAL NONE"), Err("bad signal number".to_owned()));
        assert!(kind("SIGNAL").is_err() && kind("ACTIVE x").is_err());
    }
}
