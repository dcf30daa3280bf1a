//! What handlers write before any packet comes.

use weir_ir::program::TableId;
use weir_ir::{Element, Program, State};
use weir_table::TableSet;

/// Lets a write handler change the first content of a program's tables.
pub(super) fn write(
    element: &dyn Element,
    program: &mut Program,
    (handler, value): (&str, &str),
) -> Result<(), String> {
    let mut tables = TableSet::new(program.tables.iter().map(|t| &t.decl)).map_err(|e| e.to_string())?;
    for (i, t) in (0..).zip(&program.tables) {
        for row in &t.rows {
            tables.table_mut(i).insert_row(row, 0).map_err(|e| e.to_string())?;
        }
    }
    let names: Vec<(String, TableId)> =
        (0..).zip(&program.tables).map(|(i, t)| (t.decl.name.clone(), TableId(i))).collect();
    element.write(handler, value, &mut State::new(&mut tables, &names, 0))?;
    for (i, t) in (0..).zip(&mut program.tables) {
        t.rows = tables.table(i).rows().into_iter().map(|(_, row)| row).collect();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_plan::{Classes, Plan};

    use crate::click::Template;

    #[test]
    fn a_write_changes_what_a_table_begins_with() {
        let plan =
            Plan::new(&Classes::default(), "Idle -> s :: Switch(0) -> Discard; s [1] -> Discard;", "t")
                .unwrap();
        let mut template = Template::new(&plan);
        let cells = |t: &Template| {
            let switch = t.programs().find(|p| p.elements[0] == "s").unwrap().clone();
            switch.tables.iter().map(|t| t.rows[0].value[0]).collect::<Vec<_>>()
        };
        let before = cells(&template);
        template.write(&plan, "s.switch", "1").unwrap();
        assert_ne!(cells(&template), before);
        assert!(template.write(&plan, "s.swich", "1").unwrap_err().contains("s.swich"));
        assert!(template.write(&plan, "t.switch", "1").unwrap_err().contains("no handler"));
    }
}
