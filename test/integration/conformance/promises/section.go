// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

// section is a part of the cases, with a heading for those who read them.
type section struct {
	Title string
	Cases []TestCase
}

// Sections have what users rely on, in the order in which it runs: a cluster
// joins, is told about, has rights and troubles, is used, is away, and leaves.
func Sections() []section {
	return []section{
		{"Joining", Joining()},
		{"What is reported to the hub", telling()},
		{"The Cluster API", clusterAPI()},
		{"Rights", rightsCases()},
		{"Agents that fail, clusters that are denied", troubles()},
		{"Delivering works", delivering()},
		{"Update strategies", strategies()},
		{"Placing", placing()},
		{"Feedback, conditions and health", reporting()},
		{"Works of bindings", bindings()},
		{"An unreachable cluster", outage()},
		{"Leaving", leaving()},
	}
}

// Cases returns the cases of all sections.
func Cases() []TestCase {
	var list []TestCase
	for _, s := range Sections() {
		list = append(list, s.Cases...)
	}
	return list
}
