//! For tests of what becomes of a move in the middle of which somebody ends: it waits at a stage, if the controller's environment says so. A release
//! has nothing of it.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::sleep;

/// Names a folder. If a file `hold-STAGE` is in it, a move that has reached that stage makes a file `at-STAGE` there, and waits until the first is gone.
const VARIABLE: &str = "WEIR_TEST_MOVES";
/// How often it is looked, and how many times at most.
const LOOK: (Duration, u32) = (Duration::from_millis(10), 3000);

/// A move has reached a stage.
pub(super) async fn reached(stage: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(folder) = FOLDER.get_or_init(|| std::env::var_os(VARIABLE).map(PathBuf::from)) else { return };
    let hold = folder.join(format!("hold-{stage}"));
    if !hold.exists() {
        return;
    }
    if let Err(e) = std::fs::write(folder.join(format!("at-{stage}")), "") {
        return tracing::warn!("a move does not wait at '{stage}': {e}");
    }
    for _ in 0..LOOK.1 {
        if !hold.exists() {
            return;
        }
        sleep(LOOK.0).await;
    }
}
