package measure

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Markdown prints rows of cells as a table; the first row has the names of the columns. The
// first left columns are aligned left, the others right.
func Markdown(out io.Writer, left int, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	for i, r := range rows {
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(r, "\t| "))
		if i > 0 {
			continue
		}
		rule := make([]string, len(r))
		for c := range rule {
			if rule[c] = "---"; c >= left {
				rule[c] = "---:"
			}
		}
		fmt.Fprintf(w, "| %s\t|\n", strings.Join(rule, "\t| "))
	}
	return w.Flush()
}

// Print prints the medians of a row; figures that no subject has are left out.
func (t Table) Print(out io.Writer) error {
	var shown []Figure
	for _, f := range columns {
		for _, m := range t.Subjects {
			if _, ok := m.Values[f]; ok {
				shown = append(shown, f)
				break
			}
		}
	}
	head := []string{t.Row}
	for _, f := range shown {
		head = append(head, string(f))
	}
	rows := [][]string{head}
	for _, m := range t.Subjects {
		line := []string{m.Name}
		for _, f := range shown {
			cell := ""
			if v, ok := m.Values[f]; ok {
				cell = f.Format(v)
			}
			line = append(line, cell)
		}
		rows = append(rows, line)
	}
	fmt.Fprintf(out, "\n%s\n\n", t.Title)
	if err := Markdown(out, 1, rows); err != nil {
		return err
	}
	for _, m := range t.Subjects {
		if m.Failure != "" {
			fmt.Fprintf(out, "\n%s: not measured: %s\n", m.Name, strings.Join(strings.Fields(m.Failure), " "))
		}
	}
	return t.printCosts(out)
}

// PrintBars prints all bars and their results.
func PrintBars(out io.Writer, all []Table) error {
	rows := [][]string{{"row", "ours", "figure", "bar", "result", "", "beside", "", "ratio"}}
	for _, t := range all {
		for _, v := range t.Bars {
			line := []string{v.Row, v.Ours, string(v.Figure), v.Bar, v.Result(), "", v.Beside, "", ""}
			if v.Missing == "" {
				line[5] = v.Figure.Format(v.Value)
				if v.Beside != "" {
					line[7], line[8] = v.Figure.Format(v.Other), fmt.Sprintf("%.2f", v.Ratio)
				}
			}
			rows = append(rows, line)
		}
	}
	if len(rows) == 1 {
		return nil
	}
	fmt.Fprintln(out)
	return Markdown(out, 5, rows)
}

// Result is pass or miss, if there is a figure.
func (v Verdict) Result() string {
	switch {
	case v.Missing != "":
		return "not measured"
	case v.ByFloor != "":
		return "pass by the floor, " + v.ByFloor
	case v.Pass:
		return "pass"
	}
	return "**miss**"
}
