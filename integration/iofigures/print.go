package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print prints the subjects of a row.
func (t table) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%s: %s\n", t.Row, t.Title)
	if len(t.Subjects) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "| rate\t| MB/s\t| p50 us\t| client CPU us\t| server CPU us\t| cores of others\t|  \t|")
	fmt.Fprintln(w, "| ---:\t| ---:\t| ---:\t| ---:\t| ---:\t| ---:\t| ---\t|")
	for _, m := range t.Subjects {
		if m.Failure != "" {
			fmt.Fprintf(w, "|  \t|  \t|  \t|  \t|  \t|  \t| %s: %s\t|\n", m.Name, oneLine(m.Failure))
			continue
		}
		delay := ""
		if m.P50 > 0 {
			delay = fmt.Sprintf("%.2f", m.P50)
		}
		fmt.Fprintf(w, "| %.0f\t| %.0f\t| %s\t| %.2f\t| %.2f\t| %.2f\t| %s\t|\n",
			m.Rate, m.Bytes/1e6, delay, m.ClientCPU, m.ServerCPU, m.Others, m.Name)
	}
	return w.Flush()
}

// printBars prints all bars, and whether they are reached.
func printBars(out io.Writer, all []table) error {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "| row\t| figure\t| ours\t|  \t| beside\t|  \t| ratio\t| bar\t|  \t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---:\t| ---\t| ---:\t| ---:\t| ---\t| ---\t|")
	for _, t := range all {
		for _, v := range t.Bars {
			fmt.Fprintf(w, "| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t|\n",
				v.Row, v.Figure, v.Ours, number(v.Value, v.Unit), v.Beside, number(v.Other, v.Unit), number(v.Ratio, ""), v.Bar, v.result())
		}
	}
	return w.Flush()
}

// result is pass or miss, or why neither.
func (v verdict) result() string {
	switch {
	case v.Missing != "":
		return "not measured: " + oneLine(v.Missing)
	case v.Pass:
		return "pass"
	}
	return "**miss**"
}

// number prints a figure with its unit; nothing for 0.
func number(v float64, unit string) string {
	switch {
	case v == 0:
		return ""
	case v >= 1000:
		return fmt.Sprintf("%.0f%s", v, unit)
	}
	return strings.TrimSpace(fmt.Sprintf("%.2f %s", v, unit))
}

// oneLine is a text without its line ends.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
