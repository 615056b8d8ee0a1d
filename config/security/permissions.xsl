<?xml version="1.0"?>
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Turns an enclave of a policy of SROS 2 into its permissions of DDS Security: what it may do with ROS names becomes which DDS topics
     it may publish and subscribe. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output omit-xml-declaration="yes" indent="yes"/>
  <xsl:param name="enclave"/>
  <xsl:param name="domain"/>

  <xsl:template match="/">
    <dds>
      <permissions>
        <grant name="{$enclave}">
          <subject_name>CN=<xsl:value-of select="$enclave"/></subject_name>
          <!-- It is the certificate that ends. -->
          <validity>
            <not_before>2020-01-01T00:00:00</not_before>
            <not_after>2099-12-31T00:00:00</not_after>
          </validity>
          <allow_rule>
            <domains><id><xsl:value-of select="$domain"/></id></domains>
            <publish>
              <topics>
                <!-- By this topic, participants tell each other their nodes. -->
                <topic>ros_discovery_info</topic>
                <xsl:apply-templates select="//enclave[@path = $enclave]//*[@* = 'ALLOW']" mode="publish"/>
              </topics>
            </publish>
            <subscribe>
              <topics>
                <topic>ros_discovery_info</topic>
                <xsl:apply-templates select="//enclave[@path = $enclave]//*[@* = 'ALLOW']" mode="subscribe"/>
              </topics>
            </subscribe>
          </allow_rule>
          <default>DENY</default>
        </grant>
      </permissions>
    </dds>
  </xsl:template>

  <xsl:template match="topics" mode="publish">
    <xsl:if test="@publish"><xsl:apply-templates select="topic" mode="topic"/></xsl:if>
  </xsl:template>
  <xsl:template match="topics" mode="subscribe">
    <xsl:if test="@subscribe"><xsl:apply-templates select="topic" mode="topic"/></xsl:if>
  </xsl:template>

  <!-- Who requests publishes requests and subscribes replies, who replies the other way round. -->
  <xsl:template match="services" mode="publish">
    <xsl:if test="@request"><xsl:apply-templates select="service" mode="request"/></xsl:if>
    <xsl:if test="@reply"><xsl:apply-templates select="service" mode="reply"/></xsl:if>
  </xsl:template>
  <xsl:template match="services" mode="subscribe">
    <xsl:if test="@reply"><xsl:apply-templates select="service" mode="request"/></xsl:if>
    <xsl:if test="@request"><xsl:apply-templates select="service" mode="reply"/></xsl:if>
  </xsl:template>

  <!-- An action is three services and two topics of its server. -->
  <xsl:template match="actions" mode="publish">
    <xsl:if test="@call"><xsl:apply-templates select="action" mode="requests"/></xsl:if>
    <xsl:if test="@execute"><xsl:apply-templates select="action" mode="replies"/></xsl:if>
  </xsl:template>
  <xsl:template match="actions" mode="subscribe">
    <xsl:if test="@execute"><xsl:apply-templates select="action" mode="requests"/></xsl:if>
    <xsl:if test="@call"><xsl:apply-templates select="action" mode="replies"/></xsl:if>
  </xsl:template>
  <xsl:template match="action" mode="requests">
    <xsl:variable name="name"><xsl:call-template name="name"/></xsl:variable>
    <topic>rq<xsl:value-of select="$name"/>/_action/send_goalRequest</topic>
    <topic>rq<xsl:value-of select="$name"/>/_action/cancel_goalRequest</topic>
    <topic>rq<xsl:value-of select="$name"/>/_action/get_resultRequest</topic>
  </xsl:template>
  <xsl:template match="action" mode="replies">
    <xsl:variable name="name"><xsl:call-template name="name"/></xsl:variable>
    <topic>rr<xsl:value-of select="$name"/>/_action/send_goalReply</topic>
    <topic>rr<xsl:value-of select="$name"/>/_action/cancel_goalReply</topic>
    <topic>rr<xsl:value-of select="$name"/>/_action/get_resultReply</topic>
    <topic>rt<xsl:value-of select="$name"/>/_action/feedback</topic>
    <topic>rt<xsl:value-of select="$name"/>/_action/status</topic>
  </xsl:template>

  <xsl:template match="*" mode="topic"><topic>rt<xsl:call-template name="name"/></topic></xsl:template>
  <xsl:template match="*" mode="request"><topic>rq<xsl:call-template name="name"/>Request</topic></xsl:template>
  <xsl:template match="*" mode="reply"><topic>rr<xsl:call-template name="name"/>Reply</topic></xsl:template>

  <!-- The full name: as it stands, below the node (~), or below the node's namespace. -->
  <xsl:template name="name">
    <xsl:variable name="profile" select="ancestor::profile"/>
    <xsl:if test="not(starts-with(., '/'))">
      <xsl:if test="$profile/@ns != '/'"><xsl:value-of select="$profile/@ns"/></xsl:if>
      <xsl:text>/</xsl:text>
    </xsl:if>
    <xsl:if test="starts-with(., '~')"><xsl:value-of select="$profile/@node"/></xsl:if>
    <xsl:value-of select="substring(., 1 + starts-with(., '~'))"/>
  </xsl:template>
</xsl:stylesheet>
