// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// Names of values are those of OCM's charts where they mean the same.

// dnsLabel is what Kubernetes takes for the name of a namespace.
const dnsLabel = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`

// operatorValues are those that the charts of both operators have. The other
// image values are those of the images of what the operator installs.
func operatorValues(registry string, images ...value) []value {
	first := []value{
		{path: "replicaCount", text: "Number of pods of the operator; one of them works", initial: 1, schema: number(1)},
		{path: "images.registry", text: "Registry of the image `capstan`", initial: registry, schema: text()},
		{path: "images.tag", text: "Tag of the image; the version of the chart if empty", initial: "", schema: text()},
		{path: "images.imagePullPolicy", text: "When nodes pull the operator's image", initial: "IfNotPresent", schema: oneOf("Always", "IfNotPresent", "Never")},
		{path: "images.imagePullSecrets", text: "Names of Secrets in the namespace of the release that the operator's image is pulled with", initial: []any{}, schema: list(text())},
		{
			path: "images.imageCredentials.createImageCredentials", initial: false, schema: boolean(),
			text: "Create the Secret `open-cluster-management-image-pull-credentials`, with which all images are pulled: the operator copies it to where its components run",
		},
		{path: "images.imageCredentials.userName", text: "User of the registry, for this Secret", initial: "", schema: text()},
		{path: "images.imageCredentials.password", text: "Password of this user", initial: "", schema: text()},
		{path: "images.imageCredentials.dockerConfigJson", text: "Content of this Secret, instead of user and password", initial: "", schema: text()},
		{path: "images.overrides.operatorImage", text: "Image of the operator, and of all that has none of its own; instead of registry and tag", initial: "", schema: text()},
	}
	last := []value{
		{
			path: "podSecurityContext", text: "Security context of the operator's pods", schema: object{"type": "object"},
			initial: object{"runAsNonRoot": true, "seccompProfile": object{"type": "RuntimeDefault"}},
		},
		{
			path: "securityContext", text: "Security context of the operator's container", schema: object{"type": "object"},
			initial: object{
				"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
				"capabilities": object{"drop": []string{"ALL"}},
			},
		},
		{
			path: "resources", text: "Requests and limits of the operator's container", schema: object{"type": "object"},
			initial: object{"requests": object{"cpu": "2m", "memory": "16Mi"}},
		},
		{path: "nodeSelector", text: "Labels of the nodes that the operator may run on", initial: object{}, schema: texts()},
		{path: "tolerations", text: "Taints that the operator tolerates", initial: []any{}, schema: list(object{"type": "object"})},
		{path: "affinity", text: "Affinity of the operator's pods", initial: object{}, schema: object{"type": "object"}},
		{path: "enableSyncLabels", text: "Put the labels of the object that the operator works for on everything that it installs", initial: false, schema: boolean()},
	}
	return slices.Concat(first, images, last)
}

func clusterManagerValues(registry string) []value {
	component := func(name, what string) value {
		return value{path: "images.overrides." + name, text: "Image of " + what, initial: "", schema: text()}
	}
	values := operatorValues(registry,
		component("registrationImage", "the registration controller and webhook"),
		component("workImage", "the work controller and webhook"),
		component("placementImage", "the placement controller"),
		component("addOnManagerImage", "the add-on manager, which this version does not install"),
	)
	spec := func(name, what string) value {
		return value{path: "clusterManager." + name, text: what, initial: object{}, spec: name}
	}
	return append(values,
		value{path: "priorityClassName", text: "PriorityClass of the operator's pods", initial: "", schema: text()},
		value{
			path: "createBootstrapSA", initial: false, schema: boolean(),
			text: "Create the ServiceAccount `agent-registration-bootstrap` with the chart, for those who make its token before the hub works; the operator makes it in any case",
		},
		value{path: "clusterManager.create", text: "Make the cluster a hub: create the ClusterManager `cluster-manager`", initial: true, schema: boolean()},
		value{path: "clusterManager.annotations", text: "Annotations of the ClusterManager", initial: object{}, schema: texts()},
		value{path: "clusterManager.mode", text: "`Default`, or `Hosted` for a hub that is another cluster", initial: "Default", schema: oneOf("Default", "Hosted")},
		value{path: "clusterManager.default", text: "Options of mode Default", initial: object{}, spec: "deployOption.default"},
		value{path: "clusterManager.hosted", text: "Options of mode Hosted: where the hub reaches the webhooks", initial: object{}, spec: "deployOption.hosted"},
		spec("nodePlacement", "Nodes that the hub's pods may run on"),
		spec("registrationConfiguration", "Feature gates of registration, and who is accepted automatically"),
		spec("workConfiguration", "Feature gates of work"),
		spec("placementConfiguration", "Feature gates of placement"),
		spec("addOnManagerConfiguration", "Feature gates of the add-on manager"),
		spec("serverConfiguration", "Options of the gRPC server, which this version does not install"),
		spec("resourceRequirement", "Requests and limits of the hub's pods"),
	)
}

func klusterletValues(registry string) []value {
	values := operatorValues(registry,
		value{path: "images.overrides.registrationImage", text: "Image of the registration agent in modes Default and Hosted", initial: "", schema: text()},
		value{path: "images.overrides.workImage", text: "Image of the work agent in modes Default and Hosted", initial: "", schema: text()},
		value{path: "images.overrides.agentImage", text: "Image of the one agent of the Singleton modes", initial: "", schema: text()},
	)
	spec := func(name, what string, initial any) value {
		return value{path: "klusterlet." + name, text: what, initial: initial, spec: name}
	}
	return append(values,
		value{
			path: "priorityClassName", initial: "", schema: text(),
			text: "PriorityClass of operator and agents; unless its name begins with `system-`, the chart creates it, with value 1000000",
		},
		value{path: "noOperator", text: "Install no operator, as the cluster has one: for further Klusterlets, with hosted agents", initial: false, schema: boolean()},
		value{
			path: "bootstrapHubKubeConfig", initial: "", schema: text(),
			text: "Kubeconfig with which the agent asks to join, as `capstan token create --print-kubeconfig` prints it; if empty, create the Secret `bootstrap-hub-kubeconfig` yourself",
		},
		value{
			path: "externalManagedKubeConfig", initial: "", schema: text(),
			text: "Kubeconfig of the member, in the hosted modes; if empty, create the Secret `external-managed-kubeconfig` yourself",
		},
		value{path: "klusterlet.create", text: "Let the cluster join: create the Klusterlet", initial: true, schema: boolean()},
		value{path: "klusterlet.name", text: "Name of the Klusterlet, and of the namespace of hosted agents", initial: "klusterlet", schema: matching(dnsLabel)},
		value{path: "klusterlet.annotations", text: "Annotations of the Klusterlet", initial: object{}, schema: texts()},
		value{
			path: "klusterlet.mode", initial: "Singleton", schema: oneOf("Default", "Singleton", "Hosted", "SingletonHosted"),
			text: "`Singleton` (one agent), `Default` (one for registration, one for work), and for agents of a member that is another cluster `SingletonHosted` and `Hosted`",
		},
		value{
			path: "klusterlet.clusterName", initial: "", schema: object{"type": "string", "pattern": `^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$`},
			text: "Name of the cluster on the hub; a random one if empty",
		},
		value{
			path: "klusterlet.namespace", initial: "open-cluster-management-agent", spec: "namespace",
			text: "Namespace of the agents on the member; its name begins with `open-cluster-management-`",
		},
		spec("externalServerURLs", "Addresses of the cluster's API server for others", []any{}),
		spec("nodePlacement", "Nodes that the agents may run on", object{}),
		spec("registrationConfiguration", "Feature gates of registration, and labels of the cluster on the hub", object{}),
		spec("workConfiguration", "Feature gates and limits of work", object{}),
		spec("hubApiServerHostAlias", "Address of the hub, if its name does not resolve", object{}),
		spec("resourceRequirement", "Requests and limits of the agents", object{}),
	)
}
