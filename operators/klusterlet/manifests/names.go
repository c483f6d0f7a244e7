// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests builds what the klusterlet operator installs on a member.
//
// It is pure: the same Klusterlet and AgentOptions always give the same objects, so
// a dry run can print what the operator would apply.
package manifests

import (
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// Names that tools, roles and the agents rely on.
const (
	// RegistrationApp, WorkApp and SingletonApp are the labels "app" of the pods.
	RegistrationApp = "klusterlet-registration-agent"
	WorkApp         = "klusterlet-manifestwork-agent"
	SingletonApp    = "klusterlet-agent"

	// ExecutionRole has what the work agent may do besides the built-in role
	// admin. It and AggregateRole are the same for all Klusterlets, hence one of
	// each: RBAC lets the operator write these, whose rules it does not hold
	// itself, by their names only.
	ExecutionRole = "open-cluster-management:klusterlet-work:execution"
	// AggregateRole collects the roles that have AggregateToWorkLabel.
	AggregateRole = "open-cluster-management:klusterlet-work:aggregate"
	// AdminRole is Kubernetes' own.
	AdminRole = "admin"

	// ManagementRolePrefix is how roles begin that an agent has where it runs.
	ManagementRolePrefix = "open-cluster-management:management:"

	rolePrefix = "open-cluster-management:"
)

// AgentNamespace returns the namespace of the agents and their secrets. Hosted
// agents have one on the management cluster that is called as their Klusterlet.
func AgentNamespace(klusterlet *operatorv1.Klusterlet) string {
	if IsHostedMode(klusterlet) {
		return klusterlet.Name
	}
	return MemberNamespace(klusterlet)
}

// MemberNamespace returns the namespace on the member of the accounts that
// agents work there as. Agents that are not hosted run in it.
func MemberNamespace(klusterlet *operatorv1.Klusterlet) string {
	if klusterlet.Spec.Namespace == "" {
		return operatorv1.DefaultAgentNamespace
	}
	return klusterlet.Spec.Namespace
}

// IsSingletonMode reports whether one agent does everything.
func IsSingletonMode(klusterlet *operatorv1.Klusterlet) bool {
	mode := klusterlet.Spec.DeployOption.Mode
	return mode == operatorv1.InstallModeSingleton || mode == operatorv1.InstallModeSingletonHosted
}

// IsHostedMode reports whether the agents run on another cluster than their member, the
// management cluster, which the operator runs on.
func IsHostedMode(klusterlet *operatorv1.Klusterlet) bool {
	mode := klusterlet.Spec.DeployOption.Mode
	return mode == operatorv1.InstallModeHosted || mode == operatorv1.InstallModeSingletonHosted
}

// RegistrationDeployment returns the name of the Deployment whose agent joins:
// in mode Singleton it is the only one.
func RegistrationDeployment(klusterlet *operatorv1.Klusterlet) string {
	if IsSingletonMode(klusterlet) {
		return klusterlet.Name + "-agent"
	}
	return klusterlet.Name + "-registration-agent"
}

// WorkDeployment returns the name of the Deployment whose agent applies works.
func WorkDeployment(klusterlet *operatorv1.Klusterlet) string {
	if IsSingletonMode(klusterlet) {
		return klusterlet.Name + "-agent"
	}
	return klusterlet.Name + "-work-agent"
}

// RegistrationAccount and WorkAccount are the ServiceAccounts of the agents. A
// singleton runs as the WorkAccount.
func RegistrationAccount(klusterlet *operatorv1.Klusterlet) string {
	return klusterlet.Name + "-registration-sa"
}

// WorkAccount is the ServiceAccount of the work agent and of a singleton.
func WorkAccount(klusterlet *operatorv1.Klusterlet) string {
	return klusterlet.Name + "-work-sa"
}

// RegistrationMemberSecret and WorkMemberSecret are the secrets with which the
// hosted agents work on their member.
func RegistrationMemberSecret(klusterlet *operatorv1.Klusterlet) string {
	if IsSingletonMode(klusterlet) {
		return operatorv1.ExternalManagedKubeConfigAgentSecret
	}
	return operatorv1.ExternalManagedKubeConfigRegistrationSecret
}

// WorkMemberSecret is that of the work agent; a singleton has one only.
func WorkMemberSecret(klusterlet *operatorv1.Klusterlet) string {
	if IsSingletonMode(klusterlet) {
		return operatorv1.ExternalManagedKubeConfigAgentSecret
	}
	return operatorv1.ExternalManagedKubeConfigWorkSecret
}

// MemberSecrets has for each secret of a hosted agent the ServiceAccount on the
// member that its token is of.
func MemberSecrets(klusterlet *operatorv1.Klusterlet) map[string]string {
	return map[string]string{
		WorkMemberSecret(klusterlet):         WorkAccount(klusterlet),
		RegistrationMemberSecret(klusterlet): registrationAccountOf(klusterlet),
	}
}

func registrationAccountOf(klusterlet *operatorv1.Klusterlet) string {
	return agentAccountsIn(klusterlet, MemberNamespace(klusterlet)).registration.Name
}
