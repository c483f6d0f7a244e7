// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret

import (
	"fmt"
	"strings"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
)

// parameter is a parameter of a function, or what it returns.
type parameter struct {
	Name    string `json:"name"`
	Type    string `json:"type"`
	Meaning string `json:"meaning"`
}

// functionDoc is what there is to know of a function.
type functionDoc struct {
	// Operation is empty for a function of the library.
	Operation interpreters.Operation `json:"operation,omitempty"`
	// Field is that of a customization.
	Field    string      `json:"field,omitempty"`
	Function string      `json:"function"`
	Meaning  string      `json:"meaning"`
	Takes    []parameter `json:"takes"`
	Returns  []parameter `json:"returns"`
	Example  string      `json:"example,omitempty"`
}

// What several functions take.
func desiredParameter() parameter {
	return parameter{"desiredObj", "object", "the object as the hub has it"}
}

func observedParameter() parameter {
	return parameter{"observedObj", "object", "the object as it is in the cluster, with its status"}
}

// completeDoc completes what is known of an operation.
func completeDoc(operation interpreters.Operation, d functionDoc) functionDoc {
	script := operation.Script()
	d.Operation, d.Field, d.Function = operation, fmt.Sprintf("spec.customizations.%s.luaScript", script), script.FunctionName()
	return d
}

// functionDocs are those of all functions, or that of an operation.
func functionDocs(only interpreters.Operation) []functionDoc {
	all := append(operationDocs(), libraryDocs()...)
	if only == "" {
		return all
	}
	for _, d := range all {
		if d.Operation == only {
			return []functionDoc{d}
		}
	}
	return nil
}

func operationDocs() []functionDoc {
	const requirements = "{resourceRequest = {cpu = \"500m\", …}, nodeClaim = {nodeSelector = {…}, tolerations = {…}, hardNodeAffinity = {…}}, priorityClassName = \"…\"}; nil is nothing"
	return []functionDoc{
		completeDoc(interpreters.InterpretReplica, functionDoc{
			Meaning: "how many pods the object asks for, and what each of them needs", Takes: []parameter{desiredParameter()},
			Returns: []parameter{{"replicas", "whole number", "how many pods"}, {"requirements", "table or nil", requirements}},
			Example: "local kube = require(\"kube\")\nfunction GetReplicas(desiredObj)\n  return desiredObj.spec.workers or 1, kube.accuratePodRequirements(desiredObj.spec.template)\nend",
		}),
		completeDoc(interpreters.InterpretComponent, functionDoc{
			Meaning: "the parts of the object that have pods of their own", Takes: []parameter{desiredParameter()},
			Returns: []parameter{{"components", "list", "of {name = \"worker\", replicas = 3, replicaRequirements = …}, the last one as in GetReplicas"}},
			Example: "function GetComponents(desiredObj)\n  return {{name = \"head\", replicas = 1}, {name = \"worker\", replicas = desiredObj.spec.workers}}\nend",
		}),
		completeDoc(interpreters.ReviseReplica, functionDoc{
			Meaning: "the object with another number of pods", Takes: []parameter{desiredParameter(), {"desiredReplica", "whole number", "how many pods it is to have"}},
			Returns: []parameter{{"object", "object", "the object with that number"}},
			Example: "function ReviseReplica(desiredObj, desiredReplica)\n  desiredObj.spec.workers = desiredReplica\n  return desiredObj\nend",
		}),
		completeDoc(interpreters.Retain, functionDoc{
			Meaning: "what to apply, where the cluster decides a part of the object itself", Takes: []parameter{desiredParameter(), observedParameter()},
			Returns: []parameter{{"object", "object", "the object to apply"}},
			Example: "function Retain(desiredObj, observedObj)\n  desiredObj.spec.paused = observedObj.spec.paused\n  return desiredObj\nend",
		}),
		completeDoc(interpreters.InterpretStatus, functionDoc{
			Meaning: "what of the status is reported to the hub", Takes: []parameter{observedParameter()},
			Returns: []parameter{{"status", "table or nil", "what is reported; nil is nothing"}},
			Example: "function ReflectStatus(observedObj)\n  return {ready = observedObj.status.ready}\nend",
		}),
		completeDoc(interpreters.AggregateStatus, functionDoc{
			Meaning: "the sum of what clusters report",
			Takes: []parameter{desiredParameter(), {
				"statusItems", "list",
				"of {clusterName, status, applied, appliedMessage, health}; status is what InterpretStatus has reported, and health is Healthy, Unhealthy or Unknown",
			}},
			Returns: []parameter{{"object", "object", "the object with its status; the rest does not matter"}},
			Example: "function AggregateStatus(desiredObj, statusItems)\n  local ready = 0\n  for _, item in ipairs(statusItems) do\n    if item.status ~= nil then ready = ready + (item.status.ready or 0) end\n  end\n  desiredObj.status = {ready = ready}\n  return desiredObj\nend",
		}),
		completeDoc(interpreters.InterpretHealth, functionDoc{
			Meaning: "whether the object does what it is for", Takes: []parameter{observedParameter()},
			Returns: []parameter{{"healthy", "boolean", "true is Healthy, false Unhealthy"}},
			Example: "function InterpretHealth(observedObj)\n  return observedObj.status ~= nil and observedObj.status.phase == \"Running\"\nend",
		}),
		completeDoc(interpreters.InterpretDependency, functionDoc{
			Meaning: "the objects that the object needs beside it", Takes: []parameter{desiredParameter()},
			Returns: []parameter{{"dependencies", "list", "of {apiVersion, kind, namespace, name}, or with labelSelector instead of name"}},
			Example: "local kube = require(\"kube\")\nfunction GetDependencies(desiredObj)\n  return kube.getPodDependencies(desiredObj.spec.template, desiredObj.metadata.namespace)\nend",
		}),
	}
}

// libraryDocs are those of library kube.
func libraryDocs() []functionDoc {
	template := parameter{"podTemplate", "table", "a pod template: {metadata = …, spec = …}"}
	return []functionDoc{
		{
			Function: "kube.accuratePodRequirements", Meaning: "what each pod of a template needs of a node, as the scheduler counts it", Takes: []parameter{template},
			Returns: []parameter{{"requirements", "table or nil", "as GetReplicas returns it; nil is nothing"}},
		},
		{
			Function: "kube.getPodDependencies", Meaning: "what the pods of a template refer to: ConfigMaps, Secrets, ServiceAccounts and claims",
			Takes:   []parameter{template, {"namespace", "string", "the namespace of the pods"}},
			Returns: []parameter{{"dependencies", "list", "as GetDependencies returns it"}},
		},
		{
			Function: "kube.resourceAdd", Meaning: "the sum of quantities", Takes: []parameter{{"a, b, ...", "string or number", "quantities such as 500m or 2Gi; nil is 0"}},
			Returns: []parameter{{"sum", "string", "a quantity"}},
		},
		{
			Function: "kube.getResourceQuantity", Meaning: "a quantity as a number", Takes: []parameter{{"quantity", "string or number", "such as 500m or 2Gi"}},
			Returns: []parameter{{"value", "number", "such as 0.5"}},
		},
	}
}

// docText is what there is to know for people.
func docText(only interpreters.Operation) string {
	var b strings.Builder
	for i, d := range functionDocs(only) {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		var names []string
		for _, p := range d.Takes {
			names = append(names, p.Name)
		}
		title := string(d.Operation)
		if title == "" {
			title = "Library kube"
		}
		fmt.Fprintf(&b, "%s: %s\n", title, d.Meaning)
		if d.Field != "" {
			fmt.Fprintf(&b, "  field:     %s\n", d.Field)
		}
		fmt.Fprintf(&b, "  function:  %s(%s)\n", d.Function, strings.Join(names, ", "))
		var rows [][]string
		for _, p := range d.Takes {
			rows = append(rows, []string{"  takes", p.Name, p.Type, p.Meaning})
		}
		for _, p := range d.Returns {
			rows = append(rows, []string{"  returns", p.Name, p.Type, p.Meaning})
		}
		b.WriteString(columns.FormatTable(rows))
		for line := range strings.Lines(d.Example) {
			b.WriteString("      " + line)
		}
		if d.Example != "" {
			fmt.Fprintln(&b)
		}
	}
	if only == "" {
		fmt.Fprint(&b, "\nScripts are Lua 5.1 with string, table, math, os.time and os.date; kube is there with and without require(\"kube\"). "+
			"Nothing stays from one run to the next.\n"+
			"Their limits: docs/spec/config/resourceinterpretercustomization.md.\n")
	}
	return b.String()
}
