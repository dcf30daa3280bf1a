//! Native functions: programs of the node, brought to work by the scripts of their image (COMPOSER paper, section 6.1).
//!
//! A function's main process is the script `run`, if there is one; what else its scripts start is of its control group and ends with
//! it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio::process::Command;

use super::ComputeError;
use super::hosted::{Context, Main, Paths, SHELL, Workload};
use super::launch::{Launch, check_installed, mounts_for_others};
use super::netns;
use crate::instance::{Kind, Spec, Work};

/// The driver of native functions.
#[derive(Debug)]
pub struct Native {
    /// The folder of all functions.
    functions: PathBuf,
    /// The command line that leads to [`Launch::exec`], without its last argument.
    launcher: Vec<OsString>,
}

impl Native {
    /// With functions in a folder; `launcher` is the command line that leads to [`Launch::exec`].
    pub fn new(functions: PathBuf, launcher: Vec<OsString>) -> Native {
        Native { functions, launcher }
    }

    /// The file of a script, if the image has it.
    fn file(cx: &Context<'_>, name: &str) -> Option<PathBuf> {
        let file = cx.paths.image(&cx.spec.digest).join("scripts").join(name);
        file.is_file().then_some(file)
    }

    /// How a program is started where the function is.
    fn launch(cx: &Context<'_>, command: Vec<String>, terminal: bool) -> Launch {
        let text = |path: &Path| path.display().to_string();
        let mut launch = cx.launch(command, terminal);
        launch.environment.push(("WEIR_IMAGE".to_owned(), text(&cx.paths.image(&cx.spec.digest))));
        launch.environment.push(("WEIR_STATE".to_owned(), text(&cx.paths.state())));
        launch
            .environment
            .push(("WEIR_NODE_NETNS".to_owned(), format!("/proc/{}/ns/net", std::process::id())));
        if let Ok(program) = std::env::current_exe() {
            launch.environment.push(("WEIR_PROGRAM".to_owned(), text(&program)));
        }
        if let Work::Native { native, .. } = &cx.spec.work {
            let private = native.private.iter().enumerate();
            launch.private = private.map(|(i, seen)| (cx.paths.private(i), seen.into())).collect();
        }
        launch
    }

    /// A script, ready to be run.
    fn command(
        &self,
        cx: &Context<'_>,
        file: &Path,
        argument: Option<&str>,
    ) -> Result<Command, ComputeError> {
        let command = [file.display().to_string()].into_iter().chain(argument.map(str::to_owned));
        cx.launched(&self.launcher, &Self::launch(cx, command.collect(), false))
    }

    /// Runs a script to its end; one that the image does not have is none. Says whether there is one.
    async fn run(&self, cx: &Context<'_>, name: &str) -> Result<bool, ComputeError> {
        let Some(file) = Self::file(cx, name) else { return Ok(false) };
        cx.run(&format!("the script {name}"), self.command(cx, &file, None)?).await.map(|()| true)
    }
}

#[async_trait]
impl Workload for Native {
    const KIND: Kind = Kind::Native;
    const MAIN: &str = "the script run";
    const FRESH: bool = false;

    fn check(&self, spec: &Spec) -> Result<(), ComputeError> {
        let Work::Native { native, .. } = &spec.work else { return Ok(()) };
        if let Some(hides) = native.private.iter().find(|p| self.functions.starts_with(p)) {
            let what = format!(
                "its private directory {hides} hides {}, where the node keeps functions: start the node with another --store",
                self.functions.display()
            );
            return Err(ComputeError::Image { image: spec.image.clone(), what });
        }
        check_installed(&spec.image, &native.dependencies)
    }

    /// Makes the node's own copy of the image, which nobody changes.
    async fn fetch(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        let Work::Native { folder, .. } = &cx.spec.work else { return Ok(()) };
        cx.copy_image(folder)?;
        if Self::file(cx, "start").is_none() && Self::file(cx, "run").is_none() {
            let what = "it has neither scripts/start nor scripts/run".to_owned();
            return Err(ComputeError::Image { image: cx.spec.image.clone(), what });
        }
        Ok(())
    }

    async fn create(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        self.run(cx, "create").await.map(drop)
    }

    async fn start(&self, cx: &Context<'_>) -> Result<Option<Main>, ComputeError> {
        self.run(cx, "start").await?;
        let ports = cx.spec.ports.iter().map(|p| p.inside.clone()).collect();
        let missing = netns::missing(&cx.paths.name, ports)
            .await
            .map_err(ComputeError::system("cannot look for its ports"))?;
        if let Some(port) = missing {
            let what = format!(
                "its script start took the interface of port {port} away: it has to keep its name and namespace"
            );
            return Err(ComputeError::Image { image: cx.spec.image.clone(), what });
        }
        let Some(file) = Self::file(cx, "run") else { return Ok(None) };
        cx.start("the script run", self.command(cx, &file, None)?).map(|child| Some(Main::Child(child)))
    }

    async fn update(&self, cx: &Context<'_>, _: &Spec) -> Result<bool, ComputeError> {
        self.run(cx, "update").await
    }

    async fn pause(&self, cx: &Context<'_>) -> Result<bool, ComputeError> {
        self.run(cx, "pause").await
    }

    async fn resume(&self, cx: &Context<'_>) -> Result<bool, ComputeError> {
        match Self::file(cx, "pause") {
            Some(_) => self.run(cx, "resume").await.map(|_| true),
            None => Ok(false),
        }
    }

    async fn stop(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        self.run(cx, "stop").await.map(drop)
    }

    async fn destroy(&self, cx: &Context<'_>) -> Result<(), ComputeError> {
        self.run(cx, "destroy").await.map(drop)
    }

    async fn handler(
        &self,
        cx: &Context<'_>,
        name: &str,
        value: Option<&str>,
    ) -> Result<String, ComputeError> {
        let script = format!("handlers/{name}");
        let Some(file) = Self::file(cx, &script) else {
            let what = format!("it has no file scripts/{script}");
            return Err(ComputeError::Image { image: cx.spec.image.clone(), what });
        };
        let command = self.command(cx, &file, Some(if value.is_some() { "write" } else { "read" }))?;
        cx.ask(&format!("the script {script}"), command, value).await
    }

    fn inside(&self, cx: &Context<'_>) -> Launch {
        Launch { mounts: Some(mounts_for_others()), ..Self::launch(cx, vec![SHELL.to_owned()], true) }
    }

    fn retain(&self, used: &BTreeSet<String>) {
        Paths::retain_images(&self.functions, used);
    }
}
