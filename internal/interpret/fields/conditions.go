// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fields

// Condition is an entry of a status.conditions, as most kinds have it.
type Condition struct {
	Type, Status, Reason, Message string
	// ObservedGeneration is 0 if the condition has none.
	ObservedGeneration int64
}

// True reports whether the condition is there and True.
func (c Condition) True() bool { return c.Status == "True" }

// False reports whether the condition is there and False.
func (c Condition) False() bool { return c.Status == "False" }

// Exists reports whether the condition is there.
func (c Condition) Exists() bool { return c.Type != "" }

// Conditions returns the entries of status.conditions that are conditions.
func Conditions(object map[string]any) []Condition {
	entries := List(object, "status", "conditions")
	if len(entries) == 0 {
		return nil
	}
	found := make([]Condition, 0, len(entries))
	for _, entry := range entries {
		if c := parseCondition(entry); c.Exists() {
			found = append(found, c)
		}
	}
	return found
}

// ConditionOf returns the first entry of status.conditions of a type; it does
// not exist if there is none.
func ConditionOf(object map[string]any, conditionType string) Condition {
	for _, entry := range List(object, "status", "conditions") {
		m, ok := entry.(map[string]any)
		if ok && m["type"] == conditionType {
			return parseCondition(entry)
		}
	}
	return Condition{}
}

func parseCondition(entry any) Condition {
	m, ok := entry.(map[string]any)
	if !ok {
		return Condition{}
	}
	return Condition{
		Type:               String(m, "type"),
		Status:             String(m, "status"),
		Reason:             String(m, "reason"),
		Message:            String(m, "message"),
		ObservedGeneration: IntOr(0, m, "observedGeneration"),
	}
}
