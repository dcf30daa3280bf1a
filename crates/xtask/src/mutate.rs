//! `cargo run -p xtask -- mutate`: makes mistakes in a copy of the sources, one at a time, and finds that a test fails
//! each time.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::mutations::{Mutation, Test, mutations};

/// How long tests may take; unbroken ones take seconds.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// What the copy consists of.
const COPIED: &[&str] = &["Cargo.toml", "Cargo.lock", "crates", "docs", "examples", "images", "web/dist"];

/// How a test program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// The tests that failed, or how the program ended without saying so.
    Failed(String),
    /// It took too long and was ended.
    Late,
}

/// Runs the mutations of these packages, or all, and prints a table. Whether each was noticed. With `--one-in N` before the
/// packages, a sample of them: another one with each commit.
pub(crate) fn run(root: &Path, args: &[String]) -> anyhow::Result<bool> {
    let (one_in, packages) = match args {
        [flag, n, packages @ ..] if flag == "--one-in" => {
            let n: usize = n.parse().ok().filter(|n| *n > 0).context("--one-in needs a number above 0")?;
            (n, packages)
        }
        _ => (1, args),
    };
    let known = |name: &String| mutations().any(|m| m.test.package == name);
    if let Some(unknown) = packages.iter().find(|name| !known(name)) {
        bail!("no mutation is for tests of '{unknown}'");
    }
    let chosen = |m: &&Mutation| packages.is_empty() || packages.iter().any(|p| p == m.test.package);
    let first = if one_in > 1 { commit_number(root)? % one_in } else { 0 };
    let chosen: Vec<&Mutation> = mutations().filter(chosen).skip(first).step_by(one_in).collect();
    let copy = Copy::new(root)?;
    let mut tested: Vec<Test> = Vec::new();
    for m in &chosen {
        if !tested.contains(&m.test) {
            copy.must_pass(m.test)?;
            tested.push(m.test);
        }
    }
    let mut all = true;
    for m in &chosen {
        let start = Instant::now();
        let noticed = copy.notices(m);
        let seconds = start.elapsed().as_secs();
        let outcome = match &noticed {
            Ok(Outcome::Failed(by)) => format!("noticed: {by}"),
            Ok(Outcome::Late) => "noticed: does not end".to_owned(),
            Ok(Outcome::Passed) => "NOT NOTICED".to_owned(),
            Err(e) => format!("CANNOT BE TRIED: {e:#}"),
        };
        all &= matches!(noticed, Ok(Outcome::Failed(_) | Outcome::Late));
        println!("{seconds:>4} s  {:<56} {outcome}", m.name);
    }
    println!("{} mutations", chosen.len());
    Ok(all)
}

/// A number that follows from the commit, so that a run of it can be repeated.
fn commit_number(root: &Path) -> anyhow::Result<usize> {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output();
    let output = output.context("cannot run git")?;
    let hash = String::from_utf8_lossy(&output.stdout);
    let number = hash.get(..6).and_then(|digits| usize::from_str_radix(digits, 16).ok());
    number.context("git names no commit")
}

impl std::fmt::Display for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Test { package, target, filter } = self;
        write!(f, "{package} {} {filter}", target.unwrap_or("lib"))
    }
}

impl Mutation {
    /// The file with the mistake.
    ///
    /// # Errors
    /// If the text is not there exactly once.
    fn apply(&self, source: &str) -> anyhow::Result<String> {
        let count = source.matches(self.text).count();
        let Mutation { file, text, .. } = self;
        ensure!(count == 1, "{file} has this {count} times, it is to be there once: {text}");
        Ok(source.replacen(self.text, self.instead, 1))
    }
}

/// A copy of the workspace, with build results of its own that are kept from run to run.
struct Copy {
    /// Its root.
    at: PathBuf,
    /// Where it is built: where the workspace is, for what both depend on.
    target: PathBuf,
    /// What the tests print.
    log: PathBuf,
}

impl Copy {
    /// Brings the copy up to date. Only files that differ are written, so that no more than those is built again.
    fn new(root: &Path) -> anyhow::Result<Copy> {
        let target = root.canonicalize()?.join("target");
        let folder = target.join("mutate");
        let copy = Copy { at: folder.join("sources"), target, log: folder.join("output") };
        let (mut wanted, mut there) = (BTreeMap::new(), BTreeMap::new());
        for part in COPIED {
            collect(root, Path::new(part), &mut wanted)?;
            collect(&copy.at, Path::new(part), &mut there)?;
        }
        for (path, bytes) in &wanted {
            if there.remove(path).as_ref() != Some(bytes) {
                let to = copy.at.join(path);
                fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
                fs::write(&to, bytes).with_context(|| format!("cannot write {}", to.display()))?;
            }
        }
        for path in there.keys() {
            fs::remove_file(copy.at.join(path))?;
        }
        Ok(copy)
    }

    fn must_pass(&self, test: Test) -> anyhow::Result<()> {
        let start = Instant::now();
        let outcome = self.outcome(test)?;
        println!("{:>4} s  without a mutation: {test}", start.elapsed().as_secs());
        ensure!(
            outcome == Outcome::Passed,
            "{test} is to pass without a mutation, and does not: {outcome:?}"
        );
        Ok(())
    }

    /// How the test ends with the mistake, which is taken back.
    fn notices(&self, m: &Mutation) -> anyhow::Result<Outcome> {
        let path = self.at.join(m.file);
        let source = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        fs::write(&path, m.apply(&source)?)?;
        let outcome = self.outcome(m.test);
        fs::write(&path, source)?;
        outcome
    }

    fn outcome(&self, test: Test) -> anyhow::Result<Outcome> {
        let program = self.build(test)?;
        let mut child = Command::new(program)
            .arg(test.filter)
            .current_dir(self.at.join("crates").join(test.package))
            // A smaller example of a failure is not needed.
            .envs(HashMap::from([("PROPTEST_MAX_SHRINK_ITERS", "0"), ("RUST_BACKTRACE", "0")]))
            .stdin(Stdio::null())
            .stdout(fs::File::create(&self.log)?)
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {test}"))?;
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                if status.success() {
                    return Ok(Outcome::Passed);
                }
                let output = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
                let failed =
                    output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
                let failed: Vec<&str> = failed.collect();
                return Ok(Outcome::Failed(match &failed[..] {
                    [] => status.to_string(),
                    [first] => (*first).to_owned(),
                    [first, others @ ..] => format!("{first} and {} others", others.len()),
                }));
            }
            if start.elapsed() > TIME_LIMIT {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::Late);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Builds a test program, and gives where it is.
    fn build(&self, test: Test) -> anyhow::Result<PathBuf> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args([
            "test",
            "--no-run",
            "--locked",
            "--quiet",
            "--message-format=json",
            "--package",
            test.package,
        ]);
        match test.target {
            Some(name) => cargo.args(["--test", name]),
            None => cargo.arg("--lib"),
        };
        cargo.arg("--target-dir").arg(&self.target).current_dir(&self.at).stderr(Stdio::inherit());
        cargo.args(["--config", "profile.dev.debug=false"]).env("CARGO_INCREMENTAL", "1");
        // Each mistake is built once and tried once: what is soon done is not worth the time to make it fast.
        if test.package == "weir-verify" && test.target != Some("networks") {
            cargo.args(["--config", "profile.dev.package.weir-verify.opt-level=0"]);
        }
        let output = cargo.output().context("cannot run cargo")?;
        let messages = String::from_utf8_lossy(&output.stdout);
        let messages =
            messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let (mut program, mut errors) = (None, String::new());
        for m in messages {
            // A program of the package is built beside its tests.
            if let (Some(path), Some(true)) = (m["executable"].as_str(), m["profile"]["test"].as_bool()) {
                program = Some(PathBuf::from(path));
            }
            if m["message"]["level"] == "error" {
                errors += m["message"]["rendered"].as_str().unwrap_or_default();
            }
        }
        ensure!(output.status.success(), "{test} does not build:\n{errors}");
        program.with_context(|| format!("cargo names no program of {test}"))
    }
}

/// All files below a path that may not be there, by their path from the root.
fn collect(root: &Path, path: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> anyhow::Result<()> {
    let from = root.join(path);
    if from.is_dir() {
        for entry in fs::read_dir(&from).with_context(|| format!("cannot read {}", from.display()))? {
            collect(root, &path.join(entry?.file_name()), files)?;
        }
    } else if from.is_file() {
        let bytes = fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        files.insert(path.to_owned(), bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mutation_has_its_place() {
        let root = crate::root();
        for m in mutations() {
            let source = fs::read_to_string(root.join(m.file)).unwrap();
            let changed = m.apply(&source).unwrap();
            assert_ne!(changed, source, "{}", m.name);
            let test = match m.test.target {
                Some(name) => format!("tests/{name}"),
                None => "src".to_owned(),
            };
            let at = root.join("crates").join(m.test.package).join(test);
            assert!(at.is_dir() || at.with_extension("rs").is_file(), "{}", at.display());
        }
        assert!(mutations().count() >= 10);
    }
}
