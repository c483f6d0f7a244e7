// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/capstan-io/capstan/internal/controlplane/datadir"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// What our own steps of a restoring pod ask for.
const stepCPU, stepMemory = "10m", "64Mi"

// ReceiveContainer is the container of a restoring pod that reads the snapshot from
// its standard input.
const ReceiveContainer = "receive"

// Restoration is how the data of a member are replaced.
type Restoration struct {
	// Image has capstan-manager.
	Image string
	// Size and SHA256 are those of the snapshot.
	Size   int64
	SHA256 string
	// Bump is how much the revisions are raised.
	Bump int64
	// Again says that a restore is repeated.
	Again bool
}

// RestorePodName is the name of the pod that replaces the data of a member.
func (p Plane) RestorePodName(n int32) string {
	return fmt.Sprintf("%s-%d", p.ResourceName(Restore), n)
}

// RestorePod returns the pod that replaces the data of a member, which must not run. It
// runs where members do, and as they do.
func RestorePod(p Plane, n int32, r Restoration) *corev1ac.PodApplyConfiguration {
	program := func(name string, args ...string) *corev1ac.ContainerApplyConfiguration {
		c := podComponent{
			name: name, image: r.Image, command: append([]string{"/capstan-manager", "etcd-data", name, "--dir=" + dataDir}, args...),
			cpu: stepCPU, memory: stepMemory, mounts: []*corev1ac.VolumeMountApplyConfiguration{render.VolumeMount(dataVolume, dataDir, false)},
		}
		return stepContainer(c)
	}
	member := etcdComponent(p)
	member.name, member.command = "etcdutl", snapshotRestoreCommand(p, n, r.Bump)
	member.env = nil
	member.ports = nil
	member.files = nil
	put := []string{}
	if r.Again {
		put = append(put, "--again")
	}
	made := componentPodSpec(p, podComponent{name: Restore, cpu: stepCPU, memory: stepMemory, volumes: []*corev1ac.VolumeApplyConfiguration{
		corev1ac.Volume().WithName(dataVolume).WithPersistentVolumeClaim(corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(p.DataClaim(n))),
	}})
	made.Containers = nil
	made.WithRestartPolicy(corev1.RestartPolicyNever).
		WithInitContainers(
			program(ReceiveContainer, fmt.Sprintf("--size=%d", r.Size), "--sha256="+r.SHA256).WithStdin(true).WithStdinOnce(true),
			stepContainer(member)).
		WithContainers(program("put", put...))
	return corev1ac.Pod(p.RestorePodName(n), p.Namespace).WithLabels(p.Labels()).WithLabels(p.PodLabels(Restore)).WithSpec(made)
}

// stepContainer is a container that does something and ends.
func stepContainer(c podComponent) *corev1ac.ContainerApplyConfiguration {
	made := componentContainer(c)
	made.StartupProbe = nil
	made.LivenessProbe = nil
	made.ReadinessProbe = nil
	return made
}

// snapshotRestoreCommand makes data of the snapshot that the member begins with.
func snapshotRestoreCommand(p Plane, n int32, bump int64) []string {
	member := func(n int32) string { return p.etcdMember(n) + "=" }
	all := etcdURLs(p, member, etcdPeerPort)
	return []string{
		"etcdutl", "snapshot", "restore", dataDir + "/" + datadir.Snapshot,
		"--data-dir=" + dataDir + "/" + datadir.Restored,
		"--name=" + p.etcdMember(n),
		"--initial-cluster=" + strings.Join(all, ","),
		"--initial-cluster-token=" + p.etcdToken(),
		"--initial-advertise-peer-urls=" + strings.TrimPrefix(all[n], member(n)),
		fmt.Sprintf("--bump-revision=%d", bump), "--mark-compacted",
	}
}

// DataClaims returns the claims of the members, as the StatefulSet would make them.
func DataClaims(p Plane) []*corev1ac.PersistentVolumeClaimApplyConfiguration {
	var claims []*corev1ac.PersistentVolumeClaimApplyConfiguration
	for n := range p.Spec.Etcd.Managed.Replicas {
		claims = append(claims, corev1ac.PersistentVolumeClaim(p.DataClaim(n), p.Namespace).
			WithLabels(p.PodLabels(Etcd)).WithSpec(dataClaim(p).Spec))
	}
	return claims
}
