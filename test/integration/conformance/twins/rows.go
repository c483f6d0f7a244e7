// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package twins

import "fmt"

// ManifestRows is the table.
func ManifestRows() []manifestRow {
	rows := append(listRows(), workloadRows()...)
	rows = append(rows, serviceRows()...)
	rows = append(rows, roleRows()...)
	rows = append(rows, secretRows()...)
	rows = append(rows, jobRows()...)
	rows = append(rows, sharedRows()...)
	rows = append(rows, otherRows()...)
	return append(rows, hubRows()...)
}

// web is a Deployment with fields of its spec and containers.
func web(spec, containers string) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: NS}, spec: {%s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {%s}}}}", spec, containers)
}

// sends is a step with one manifest.
func sends(manifest string) manifestStep { return manifestStep{manifests: []string{manifest}} }

func serviceRows() []manifestRow {
	service := func(spec string) string {
		return "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: NS}, spec: {" + spec + "}}"
	}
	allocated := []string{"spec.clusterIP", "spec.clusterIPs", "spec.ports.nodePort", "spec.healthCheckNodePort"}
	return []manifestRow{
		{
			Name: "a port that somebody in the member changes", allocated: allocated,
			Steps: []manifestStep{
				{manifests: []string{service("selector: {a: b}, ports: [{name: web, port: 80}]")}, drift: "{spec: {ports: [{name: web, port: 8081, protocol: TCP}]}}"},
				{manifests: []string{service("selector: {a: b}, ports: [{name: web, port: 81}]")}, drift: "{spec: {ports: [{name: web, port: 80, protocol: TCP}]}}"},
				sends(service("selector: {a: c}, ports: [{name: web, port: 80}]")),
			},
		},
		{
			Name: "node ports that the hub allocates, and one that the user writes", allocated: allocated, taken: takeNodePort,
			Steps: []manifestStep{
				sends(service("type: NodePort, selector: {a: b}, ports: [{name: web, port: 80}]")),
				sends(service("type: NodePort, selector: {a: c}, ports: [{name: web, port: 81}]")),
				sends(service("type: NodePort, selector: {a: c}, ports: [{name: web, port: 81, nodePort: PORT}]")),
				sends(service("type: NodePort, selector: {a: d}, ports: [{name: web, port: 81, nodePort: PORT}]")),
			},
		},
		{
			Name: "the numbers of a load balancer, and one that the user writes", allocated: allocated, taken: takeNodePort, writesPort: 1,
			Steps: []manifestStep{
				sends(service("type: LoadBalancer, externalTrafficPolicy: Local, selector: {a: b}, ports: [{name: web, port: 80}]")),
				sends(service("type: LoadBalancer, externalTrafficPolicy: Local, selector: {a: c}, ports: [{name: web, port: 80}]")),
				sends(service("type: LoadBalancer, externalTrafficPolicy: Local, selector: {a: c}, ports: [{name: web, port: 80, nodePort: PORT}]")),
				sends(service("type: LoadBalancer, externalTrafficPolicy: Cluster, selector: {a: c}, ports: [{name: web, port: 80, nodePort: PORT}]")),
			},
		},
	}
}

func roleRows() []manifestRow {
	const rbac = "apiVersion: rbac.authorization.k8s.io/v1, "
	read := func(resource string) string {
		return "[{apiGroups: [''], resources: [" + resource + "], verbs: [get]}]"
	}
	aggregated := func(more string) string {
		return "{" + rbac + "kind: ClusterRole, metadata: {name: NS" + more + "}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {to: NS}}]}, rules: []}"
	}
	roles := func(resource string) (manifests []string) {
		for _, name := range []string{"team::viewer", "Ops_View", "jane@example.com-view", "ops:a..b", "-lead", "Foo", "foo", "FOO", "a:b", "a.b", "sys:x:", "with space"} {
			manifests = append(manifests, fmt.Sprintf("{%skind: Role, metadata: {name: '%s', namespace: NS}, rules: %s}", rbac, name, read(resource)))
		}
		return manifests
	}
	bindings := func(subjects string) []string {
		return []string{
			"{" + rbac + "kind: RoleBinding, metadata: {name: readers, namespace: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-of-members}, subjects: [" + subjects + "]}",
			"{" + rbac + "kind: RoleBinding, metadata: {name: writers, namespace: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: of-members}, subjects: [" + subjects + "]}",
			"{" + rbac + "kind: ClusterRoleBinding, metadata: {name: NS}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NS-of-members}, subjects: [" + subjects + "]}",
		}
	}
	user := func(name string) string {
		return "{apiGroup: rbac.authorization.k8s.io, kind: User, name: " + name + "}"
	}
	return []manifestRow{
		{
			Name:  "an aggregated ClusterRole, whose rules are those of the member",
			twins: "{" + rbac + "kind: ClusterRole, metadata: {name: NS-part, labels: {to: NS}}, rules: " + read("pods") + "}",
			onHub: "{" + rbac + "kind: ClusterRole, metadata: {name: NS-part, labels: {to: NS}}, rules: " + read("nodes") + "}",
			Steps: []manifestStep{
				sends(aggregated("")),
				sends(aggregated(", labels: {second: 'yes'}")),
				sends(aggregated(", labels: {third: 'yes'}")),
			},
		},
		{
			Name: "Roles whose names no other kind may have, and names that differ in case",
			Steps: []manifestStep{
				{manifests: roles("pods")}, {manifests: roles("secrets")}, {manifests: roles("configmaps")[:7]}, {manifests: roles("pods")},
			},
		},
		{
			Name:  "bindings of roles that are in the member, and not on the hub",
			twins: "{" + rbac + "kind: ClusterRole, metadata: {name: NS-of-members}, rules: " + read("pods") + "}\n---\n{" + rbac + "kind: Role, metadata: {name: of-members, namespace: NS}, rules: " + read("pods") + "}",
			Steps: []manifestStep{
				{manifests: bindings(user("jane"))}, {manifests: bindings(user("jane") + ", " + user("joe"))}, {manifests: bindings(user("joe"))},
			},
		},
	}
}

func secretRows() []manifestRow {
	secret := func(fields string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: NS}, " + fields + "}"
	}
	return []manifestRow{
		{
			Name:     "keys that leave stringData",
			replaces: "kubectl apply leaves a key in a template that has gone from stringData, which the API server keeps in data",
			Steps: []manifestStep{
				sends(secret("stringData: {user: u, old: o}")),
				sends(secret("stringData: {user: v}")),
				sends(secret("data: {kept: MQ==, both: MQ==}, stringData: {user: u, old: o, both: '2'}")),
				sends(secret("stringData: {user: v}")),
				sends(secret("data: {user: dw==}")),
				sends(secret("stringData: {}")),
			},
		},
		{
			Name: "another type, and back",
			Steps: []manifestStep{
				sends(secret("type: Opaque, stringData: {key: '1'}")),
				{manifests: []string{secret("type: kubernetes.io/tls, data: {tls.crt: MQ==, tls.key: MQ==}")}, recreated: true},
				{manifests: []string{secret("type: Opaque, stringData: {key: '2'}")}, recreated: true},
				sends(secret("type: Opaque, stringData: {key: '3'}")),
			},
		},
	}
}

func jobRows() []manifestRow {
	// What the API server gives a Job at POST: PUT does not, and refuses a Job without it.
	generated := []string{"spec.selector", "spec.template.metadata.labels"}
	job := func(metadata, spec, image string) string {
		return fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: NS%s}, spec: {%s, template: {spec: {restartPolicy: Never, containers: [{name: c, image: '%s'}]}}}}", metadata, spec, image)
	}
	const recreate = ", annotations: {fleet.capstan.io/recreate: 'true'}"
	return []manifestRow{
		{
			Name: "a Job changes again and again: what may change, and its pods", generated: generated,
			Steps: []manifestStep{
				sends(job(recreate, "suspend: true, parallelism: 1", "i:1")),
				sends(job(recreate, "suspend: true, parallelism: 2", "i:1")),
				sends(job(recreate, "suspend: true, parallelism: 3, activeDeadlineSeconds: 60", "i:1")),
				{manifests: []string{job(recreate, "suspend: true, parallelism: 3", "i:2")}, recreated: true},
				{manifests: []string{job(recreate, "suspend: true, parallelism: 1", "i:3")}, recreated: true},
				sends(job(recreate, "suspend: true, parallelism: 2, backoffLimit: 2", "i:3")),
			},
		},
		{
			Name: "a Job with a TTL runs once, and again for each change", Run: jobsExpire(job),
		},
		{
			Name: "a work queue is divided", generated: generated,
			Without: map[way]string{byWork: "a ManifestWork is for one cluster: nothing is divided"},
			policy:  dividedPolicy,
			Steps: []manifestStep{
				{manifests: []string{job("", "parallelism: 4", "i:1")}, Right: []string{job("", "parallelism: 2", "i:1")}, Why: "each of two clusters has half"},
				{manifests: []string{job("", "parallelism: 6", "i:1")}, Right: []string{job("", "parallelism: 3", "i:1")}, Why: "each of two clusters has half"},
				{manifests: []string{job("", "parallelism: 2", "i:1")}, Right: []string{job("", "parallelism: 1", "i:1")}, Why: "each of two clusters has half"},
			},
		},
		{
			Name: "an Indexed Job is not divided, and the binding says so", Run: indexedIsRefused(job), policy: dividedPolicy,
			Without: map[way]string{byWork: "a ManifestWork is for one cluster: nothing is divided"},
		},
	}
}

const dividedPolicy = "placement: {clusterAffinity: {clusterNames: [CLUSTER, NEXT]}, replicaScheduling: {replicaSchedulingType: Divided, replicaDivisionPreference: Weighted}}"

// sharedRows have objects that the member changes, too.
func sharedRows() []manifestRow {
	account := func(fields string) string {
		return "{apiVersion: v1, kind: ServiceAccount, metadata: {name: a, namespace: NS}" + fields + "}"
	}
	claim := func(annotations, volume, label string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: NS, labels: {change: '%s'}, annotations: {%s}}, spec: {%saccessModes: [ReadWriteOnce], storageClassName: disk, resources: {requests: {storage: 1Gi}}}}",
			label, annotations, volume)
	}
	const bound = "pv.kubernetes.io/bind-completed: 'yes', pv.kubernetes.io/bound-by-controller: 'yes', volume.kubernetes.io/storage-provisioner: example.com/disk"
	promoted := func(label string) manifestStep {
		return manifestStep{
			manifests: []string{claim(bound, "volumeName: pvc-of-another, ", label)}, Right: []string{claim("", "", label)}, Why: "each cluster has a volume of its own",
		}
	}
	return []manifestRow{
		{
			Name: "pull secrets and secrets that the member adds to an account",
			Steps: []manifestStep{
				{
					manifests: []string{account(", imagePullSecrets: [{name: a}], secrets: [{name: s}]")},
					others:    "{imagePullSecrets: [{name: a}, {name: dockercfg}], secrets: [{name: s}, {name: token}]}",
				},
				{
					manifests: []string{account(", imagePullSecrets: [{name: b}]")},
					Right:     []string{account(", imagePullSecrets: [{name: dockercfg}, {name: b}], secrets: [{name: token}]")}, Why: "what the member adds is the member's",
				},
				{
					manifests: []string{account("")},
					Right:     []string{account(", imagePullSecrets: [{name: dockercfg}], secrets: [{name: token}]")}, Why: "what the member adds is the member's",
				},
				{
					manifests: []string{account(", imagePullSecrets: [{name: c}]")},
					Right:     []string{account(", imagePullSecrets: [{name: dockercfg}, {name: c}], secrets: [{name: token}]")}, Why: "what the member adds is the member's",
				},
			},
		},
		{
			Name: "a claim that is bound in another cluster", generated: []string{"metadata.finalizers"},
			Without: map[way]string{byWork: "a ManifestWork is for one cluster, and its claim has the volume that its user writes"},
			Steps:   []manifestStep{promoted("first"), promoted("second"), promoted("third")},
		},
	}
}

func otherRows() []manifestRow {
	novelty := func(spec string) string {
		return "{apiVersion: example.net/v1, kind: Novelty, metadata: {name: new, namespace: NS}, spec: {" + spec + "}}"
	}
	finalizers := func(value, finalizers string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS%s}, data: {key: '%s'}}", finalizers, value)
	}
	const finalized = ", finalizers: [example.com/f]"
	kept := func(value string) manifestStep {
		return manifestStep{manifests: []string{finalizers(value, finalized)}, Right: []string{finalizers(value, "")}, Why: "the controller of the finalizer is on the hub"}
	}
	return []manifestRow{
		{
			Name: "a field that the hub has and the member has not",
			Steps: []manifestStep{
				{manifests: []string{novelty("size: 3, color: red")}, says: []string{"True", "Warning", ".spec.color"}},
				{manifests: []string{novelty("size: 4, color: blue")}, says: []string{"True", "Warning", ".spec.color"}},
				{manifests: []string{novelty("size: 5")}, says: []string{"The object matches the manifest."}},
			},
		},
		{
			Name:    "finalizers of a template stay on the hub, and keep the object until they go",
			Without: map[way]string{byWork: "a ManifestWork is no template: what it says of finalizers is for the object in the member"},
			Steps:   []manifestStep{kept("one"), kept("two"), kept("three")},
			ends:    templateEnds,
		},
		{
			Name: "kinds that limit and class what others use arrive unasked",
			Steps: []manifestStep{
				{manifests: limits("1"), drift: "{description: theirs}"}, {manifests: limits("2")}, {manifests: limits("3")},
			},
		},
		{
			Name:    "a CSIDriver, which agents may not manage unasked",
			Without: map[way]string{byPolicy: "what is allowed for one way would be allowed for the other; the next row is by policy"},
			Steps: []manifestStep{
				{manifests: []string{driver("false")}, says: []string{"False", "csidrivers", "open-cluster-management.io/aggregate-to-work", granting("csidrivers.storage.k8s.io")}, allow: func(s *rowScene) { s.Allow("storage.k8s.io", "csidrivers") }},
				sends(driver("true")), sends(driver("false")),
			},
		},
		{
			Name:    "a PriorityLevelConfiguration, which agents may not manage unasked",
			Without: map[way]string{byWork: "the row before is by work"},
			Steps: []manifestStep{
				{manifests: []string{level(1)}, says: []string{"False", "prioritylevelconfigurations", "open-cluster-management.io/aggregate-to-work", granting("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io")}, allow: func(s *rowScene) { s.Allow("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations") }},
				sends(level(2)), sends(level(3)),
			},
		},
	}
}

// limits are objects of kinds that limit or class others.
func limits(value string) []string {
	return []string{
		"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: NS}, value: 5, description: 'd" + value + "'}",
		"{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: NS}, spec: {hard: {configmaps: '10" + value + "'}}}",
		"{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: NS}, spec: {limits: [{type: Pod, max: {cpu: '" + value + "'}}]}}",
		"{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: NS, labels: {change: c" + value + "}}, spec: {controller: example.com/c}}",
		"{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: NS, labels: {change: c" + value + "}}, provisioner: example.com/p}",
	}
}

func driver(republish string) string {
	return "{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: NS}, spec: {attachRequired: false, requiresRepublish: " + republish + "}}"
}

// granting is what an administrator of the member copies to let the agent manage a resource.
func granting(resource string) string {
	return "kubectl create clusterrole work-" + resource + " --verb=get,list,watch,create,patch,delete --resource=" + resource +
		" && kubectl label clusterrole work-" + resource + " open-cluster-management.io/aggregate-to-work=true"
}

func level(shares int) string {
	return fmt.Sprintf("{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: PriorityLevelConfiguration, metadata: {name: NS}, spec: {type: Limited, limited: {nominalConcurrencyShares: %d, limitResponse: {type: Reject}}}}", shares)
}

func hubRows() []manifestRow {
	const noManifest = "it is about the hub, and there is one case of it"
	return []manifestRow{
		{
			Name: "an orphaning rule with a kind for a resource is refused", Run: orphaningKinds,
			Without: map[way]string{byPolicy: "a policy has no orphaning rules"},
		},
		{
			Name: "a customization with wrong keys is refused", Run: wrongKeys,
			Without: map[way]string{byWork: noManifest},
		},
		{
			Name: "what others write into Cluster.status says that it does not count", Run: statusOfOthers,
			Without: map[way]string{byWork: noManifest},
		},
	}
}
