// SPDX-License-Identifier: Apache-2.0
//! Runtime and period of a group for HCBS-Test-Suite, in place of hcbs-utils'
//! src/cgroup/hcbs/uni.rs, whose interface this is: one file, cpu.rt.max of
//! version 2, instead of two; and these two in version 1, for a kernel without
//! the series.
use crate::prelude::*;
use crate::utils::*;

pub mod prelude {
    pub use super::{
        get_cgroup_period_us, get_cgroup_runtime_us, is_v1, set_cgroup_period_us,
        set_cgroup_runtime_us,
    };
}

/// Version 2 has a file in its root that lists the controllers.
pub fn is_v1() -> bool {
    !std::path::Path::new(CGROUP_ROOT)
        .join("cgroup.controllers")
        .exists()
}

fn file(name: &str, v1: &str) -> String {
    let file = if is_v1() { v1 } else { "cpu.rt.max" };
    format!("{}/{file}", cgroup_abs_path(name))
}

fn write(file: String, text: String) -> anyhow::Result<()> {
    info!("{text} to {file}");
    __write_file(file, text)
}

/// "runtime period", where the runtime may be "max".
fn read_max(name: &str) -> anyhow::Result<(String, String)> {
    let text = __read_file(file(name, ""))?;
    text.trim()
        .split_once(' ')
        .map(|(runtime, period)| (runtime.to_owned(), period.to_owned()))
        .ok_or_else(|| anyhow::format_err!("{text}: no runtime and period"))
}

pub fn set_cgroup_period_us(name: &str, period_us: u64) -> anyhow::Result<()> {
    let text = if is_v1() {
        format!("{period_us}")
    } else {
        format!("{} {period_us}", read_max(name)?.0)
    };
    write(file(name, "cpu.rt_period_us"), text)
}

/// A runtime alone keeps the period, in cpu.rt.max as well.
pub fn set_cgroup_runtime_us(name: &str, runtime_us: u64) -> anyhow::Result<()> {
    write(file(name, "cpu.rt_runtime_us"), format!("{runtime_us}"))
}

pub fn get_cgroup_period_us(name: &str) -> anyhow::Result<u64> {
    let text = if is_v1() {
        __read_file(file(name, "cpu.rt_period_us"))?
    } else {
        read_max(name)?.1
    };
    Ok(text.trim().parse()?)
}

/// The suite knows no "max", which in the root group means all.
pub fn get_cgroup_runtime_us(name: &str) -> anyhow::Result<u64> {
    let text = if is_v1() {
        __read_file(file(name, "cpu.rt_runtime_us"))?
    } else {
        let (runtime, period) = read_max(name)?;
        if runtime == "max" { period } else { runtime }
    };
    Ok(text.trim().parse()?)
}
